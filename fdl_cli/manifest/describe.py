"""The words about tasks: the list of a project's tasks, and the help of one."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, final

from fdl_cli.manifest.entry_files import declared
from fdl_cli.manifest.model import Tree
from fdl_cli.manifest.resolve import Found, table, text
from fdl_cli.manifest.schema import Option, Schema

DEFAULT_GROUP = "Tasks"


@final
class Row(NamedTuple):
    """One task in a list."""

    name: str
    summary: str
    group: str


def rows(tree: Tree, *, hidden: bool = False) -> Iterator[Row]:
    """Yield the tasks of a manifest in its order; hidden ones only on request."""
    for name, task in table(tree, "commands").items():
        if isinstance(task, dict) and (hidden or not task.get("hidden")):
            group = text(task, "group") or DEFAULT_GROUP
            yield Row(name, summary(task), group)


def summary(task: Tree) -> str:
    """Return one line about a task: its description, else its command."""
    described = text(task, "description")
    if described:
        return described.strip().splitlines()[0]
    command = task.get("run") or task.get("entry") or ""
    words = " ".join(map(str, command)) if isinstance(command, list) else str(command)
    if words.strip():
        return words.strip().splitlines()[0]
    return ", ".join(row.name for row in rows(task))


def task_help(
    found: Found, schema: Schema | None, environ: Mapping[str, str], untold: str = ""
) -> list[str]:
    """Return the text of `fdl TASK --help`; `untold` is why the program did not tell its options."""
    name = "fdl " + " ".join(found.names)
    inner = list(rows(found.task))
    lines = [f"Usage: {_usage(name, found, schema, bool(inner))}", ""]
    about = text(found.task, "description") or (schema.description if schema else "")
    lines += [f"  {line}" for line in about.strip().splitlines()]
    lines += [""] if about else []
    lines += _runs(found)
    if schema is not None:
        lines += _section("Arguments", [_argument_row(item) for item in schema.arguments])
        lines += _section("Options", [_option_row(item, environ) for item in schema.options])
        lines += [*schema.epilog.splitlines(), ""] if schema.epilog else []
    lines += [f"Its options are not known: {untold}", ""] if untold else []
    lines += _section("Presets and tasks", [(row.name, row.summary) for row in inner])
    lines += _forwarding(name, found)
    return lines


def _runs(found: Found) -> list[str]:
    """Return the program of a task on one line, and the service that it runs in."""
    command = declared(found)
    if not command:
        return []
    from shlex import join

    words = join(map(str, command)) if isinstance(command, list) else str(command).strip()
    first, *more = words.splitlines() or [""]
    services = (text(task, "docker") for task in (found.task, *reversed(found.parents)))
    service = next((each for each in services if each), None)
    where = f"  (in the service `{service}`)" if service else ""
    return [f"Runs: {first}{' ...' if more else ''}{where}", ""]


def _usage(name: str, found: Found, schema: Schema | None, inner: bool) -> str:
    parts = [name]
    if inner:
        parts.append("[TASK]")
    if schema is not None:
        parts += [] if found.entry or text(found.task, "forward") == "auto" else ["--"]
        parts += ["[OPTIONS]"] if schema.options else []
        parts += [_positional(item) for item in schema.arguments]
    elif found.entry is not None or text(found.task, "forward") == "auto":
        parts.append("[ARGUMENTS]")
    elif text(found.task, "forward") != "never":
        parts.append("[-- ARGUMENTS]")
    return " ".join(parts)


def _positional(item: Option) -> str:
    word = item.name.upper() + ("..." if item.values in ("*", "+") else "")
    return word if item.required else f"[{word}]"


def _forwarding(name: str, found: Found) -> list[str]:
    if found.entry is not None or text(found.task, "forward") == "never":
        return [f"`fdl -n {name[4:]}` shows the command without running it."]
    if text(found.task, "forward") == "auto":
        return [f"Arguments go to the program; its own help: `{name} -- --help`."]
    return [f"Arguments after `--` go to the program: `{name} -- --help`."]


def _section(title: str, found: list[tuple[str, str]]) -> list[str]:
    if not found:
        return []
    width = min(32, max(len(left) for left, _ in found))
    lines = [f"{title}:"]
    for left, right in found:
        if len(left) > width:
            lines += [f"  {left}", f"  {'':{width}}  {right}"]
        else:
            lines.append(f"  {left:{width}}  {right}".rstrip())
    return [*lines, ""]


def _argument_row(item: Option) -> tuple[str, str]:
    return item.name.upper(), _about(item, {})


def _option_row(item: Option, environ: Mapping[str, str]) -> tuple[str, str]:
    shorts = [word for word in item.spellings if not word.startswith("--")]
    longs = [word for word in item.spellings if word.startswith("--")]
    words = ", ".join((*shorts, *longs, *item.negated))
    if item.type != "flag":
        words += f" {'|'.join(item.choices) if item.choices else item.type.upper()}"
    return words, _about(item, environ)


def _about(item: Option, environ: Mapping[str, str]) -> str:
    notes = []
    if item.default not in (None, "") and item.type != "flag":
        notes.append(f"default {item.default}")
    if item.required and item.spellings:
        notes.append("required")
    if item.environment:
        state = "set" if environ.get(item.environment) else "not set"
        notes.append(f"${item.environment}, {state}")
    if item.choices and not item.spellings:
        notes.append("one of " + ", ".join(item.choices))
    noted = "; ".join(notes)
    return f"{item.summary} ({noted})" if item.summary and noted else item.summary or noted
