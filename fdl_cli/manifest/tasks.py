"""Rules for the tasks of a merged manifest: names, and one way to run each."""

import re
from collections.abc import Iterator
from typing import Final, Literal

from fdl_cli.manifest.model import OPTION_SECTIONS
from fdl_cli.manifest.reading.document import Node, Problem, Table

TaskKind = Literal["run", "path", "entry", "preset"]

NAME: Final = re.compile(r"[A-Za-z0-9][\w.:-]*")
# Keys that only make sense for some kinds of task.
_BELONGS: Final[tuple[tuple[str, tuple[TaskKind, ...]], ...]] = (
    ("append", ("run",)), ("forward", ("run",)), ("schema", ("entry", "run")), ("commands", ("entry",)),
)  # fmt: skip


def find_task_problems(tasks: Table) -> Iterator[Problem]:
    """Yield the problems of the top tasks.

    A task may have the name of a command of fdl, or a new command would break manifests in the
    field: `fdl run NAME` reaches it.
    """
    for name, node in tasks.entries.items():
        yield from _problems(name, node, in_entry=False)


def kind_of(task: Table, *, in_entry: bool) -> TaskKind | None:
    """Return how a task runs; nothing when the manifest does not say."""
    for kind in ("run", "path", "entry"):
        if kind in task.entries:
            return kind
    return "preset" if in_entry else None


def _problems(name: str, node: Node, *, in_entry: bool) -> Iterator[Problem]:
    if not NAME.fullmatch(name):
        hint = "use letters, digits, `-`, `_`, `.` and `:`"
        yield Problem(node.place, f"`{name}` cannot be the name of a task", hint)
    if not isinstance(node, Table):
        return
    given = [kind for kind in ("run", "entry") if kind in node.entries]
    if len(given) > 1:
        names = " and ".join(f"`{kind}`" for kind in given)
        yield Problem(node.place, f"the task `{name}` has {names}", "keep one of them")
    kind = kind_of(node, in_entry=in_entry)
    # A folder whose manifest has tasks and nothing to run itself: `fdl FOLDER TASK`.
    is_group = kind == "path" and "entry" not in node.entries and "commands" in node.entries
    if kind is None or (kind == "path" and "entry" not in node.entries and not is_group):
        hint = "add `run: ...`, `entry: ...` or `path: FOLDER`"
        yield Problem(node.place, f"the task `{name}` has nothing to run", hint)
        return
    yield from _misplaced(name, node, kind)
    inner = node.entries.get("commands")
    if isinstance(inner, Table):
        for word, task in inner.entries.items():
            yield from _problems(word, task, in_entry=not is_group)


def _misplaced(name: str, task: Table, kind: TaskKind) -> Iterator[Problem]:
    actual: TaskKind = "entry" if kind == "path" else kind
    for key, wanted in _BELONGS:
        if key in task.entries and actual not in wanted:
            message = f"the task `{name}` has `{key}`, which belongs to `{wanted[0]}` tasks"
            yield Problem(task.entries[key].place, message, f"remove it, or use `{wanted[0]}:`")
    for key in OPTION_SECTIONS if actual == "run" else ():
        if key in task.entries:
            message = f"the task `{name}` has `{key}`, which belongs to `entry` tasks"
            yield Problem(task.entries[key].place, message, "remove it, or use `entry:`")
