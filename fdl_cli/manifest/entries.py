"""Every entry of a manifest, and the known state of its options."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from fdl_cli.errors import NotFoundError
from fdl_cli.manifest.entry_arguments import write_schema
from fdl_cli.manifest.entry_files import schema_key, signature, watched
from fdl_cli.manifest.model import Stored, Tree
from fdl_cli.manifest.probe import ask
from fdl_cli.manifest.resolve import Found, find_task, table
from fdl_cli.manifest.store import entry_path, read_entry

State = Literal["fresh", "stale", "missing", "without", "off"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EntryState:
    """One entry: `without` answered that it has no options to tell, and `reason` says why."""

    task: str
    state: State
    options: tuple[str, ...]
    reason: str
    file: Path


def entries(stored: Stored) -> Iterator[Found]:
    """Yield every task that has an `entry`."""
    for names in _names(stored.tree, ()):
        found = find_task(stored.tree, stored.root, names)
        if found is not None and "entry" in found.task:
            yield found


def entry_states(stored: Stored, environ: Mapping[str, str]) -> tuple[EntryState, ...]:
    """Return the known state of every entry."""
    return tuple(_state(stored, found, environ) for found in entries(stored))


def require_entries(stored: Stored, task: str | None) -> tuple[Found, ...]:
    """Return the entry of a task, or all.

    Raises:
        NotFoundError: there is no such entry.
    """
    found = tuple(entries(stored))
    if task is None:
        return found
    chosen = tuple(item for item in found if " ".join(item.names) == task)
    if not chosen:
        known = ", ".join(" ".join(item.names) for item in found) or "none"
        raise NotFoundError(
            error_id="entry-unknown",
            message=f"there is no task `{task}` with an `entry`",
            hint=f"entries of this project: {known}",
        )
    return chosen


def refresh(stored: Stored, found: Found, environ: Mapping[str, str]) -> EntryState:
    """Query an entry again."""
    if found.task.get("schema") is not False:
        answer = ask(stored, found, environ)
        write_schema(stored, found, answer.document, answer.reason, environ)
    return _state(stored, found, environ)


def clear(stored: Stored, found: Found, environ: Mapping[str, str]) -> bool:
    """Forget the options of an entry; say whether anything was known."""
    path = Path(entry_path("schemas", schema_key(stored, found), environ))
    known = path.exists()
    path.unlink(missing_ok=True)
    return known


def _names(tree: Tree, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, task in table(tree, "commands").items():
        if isinstance(task, dict):
            yield (*names, name)
            yield from _names(task, (*names, name))


def _state(stored: Stored, found: Found, environ: Mapping[str, str]) -> EntryState:
    key = schema_key(stored, found)
    path = entry_path("schemas", key, environ)
    value = read_entry(path)
    state: State = "missing"
    options: tuple[str, ...] = ()
    reason = "it was not asked yet"
    if found.task.get("schema") is False:
        state, reason = "off", "the manifest says `schema: false`"
    elif isinstance(value, tuple) and len(value) == 4 and value[0] == key:
        _, signed, document, reason = value
        state = "without" if document is None else "fresh"
        if document is not None:
            options = tuple(document.get("options", {}))
        if signed != signature(watched(found)):
            state, reason = "stale", "its files changed since it was asked"
    return EntryState(
        task=" ".join(found.names), state=state, options=options, reason=reason, file=Path(path)
    )
