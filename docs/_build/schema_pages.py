"""Pages of what the commands print with `--json`: one for each schema, with the schema itself beside it."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.commands.command import Command, CommandGroup
from fdl_cli.commands.execution import load
from fdl_cli.commands.registry import COMMANDS
from fdl_cli.json_schema import envelope_schema

FOLDER: Final = "schemas"
INTRODUCTION: Final = """\
# JSON of the commands

Every command prints one JSON document on stdout with `--json`, failures too; notes and questions go to stderr.
`--json-schema` prints its JSON Schema. A field keeps its name and meaning while the number of its schema stays.

| Field | Content |
|---|---|
| `schema` | the name of the schema, such as `fdl.setup/1` |
| `fdl` | the version of fdl |
| `ok` | whether it succeeded; then there is `data`, else `error` |
| `data` | the answer, on the page of the command |
| `error` | `id`, `message`, `hint`, `file`, `line` and `causes` of [the error](errors.md) |
| `warnings` | a list of `id`, `message` and `hint` |

| Command | Schema | Answer |
|---|---|---|
"""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A command that prints JSON: its words, its schema, and the class of its answer."""

    words: str
    name: str
    data: type

    @property
    def stem(self) -> str:
        """The name of its page, and of its schema.

        Example:
            >>> Described(words="fdl setup", name="fdl.setup/1", data=int).stem
            'fdl.setup.1'
        """
        return self.name.replace("/", ".")


def described() -> Iterator[Described]:
    """Yield every command that `fdl --help` lists, with those of groups."""
    seen: set[str] = set()
    for entry in COMMANDS:
        if entry.today:
            continue
        loaded = load(entry)
        members: Mapping[str, Command[Any, Any]] = (
            loaded.commands if isinstance(loaded, CommandGroup) else {"": loaded}
        )
        for word, command in members.items():
            if command.schema not in seen:
                seen.add(command.schema)
                words = f"fdl {entry.name} {word}".rstrip()
                yield Described(words=words, name=command.schema, data=command.data)


def write_schema_pages(folder: Path) -> None:
    """Write the list of schemas, a page for each, and the schemas as files."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    lines = []
    for each in sorted(described(), key=lambda each: each.words):
        schema = envelope_schema(each.name, each.data)
        place = folder / FOLDER / each.stem
        place.with_name(f"{each.stem}.json").write_text(
            json.dumps(schema, indent=1) + "\n", "utf-8"
        )
        place.with_name(f"{each.stem}.md").write_text(_page(each, schema), "utf-8")
        link = f"[`{each.name}`]({FOLDER}/{each.stem}.md)"
        lines.append(f"| `{each.words}` | {link} | {_first_line(each.data)} |\n")
    (folder / "schemas.md").write_text(INTRODUCTION + "".join(lines), "utf-8")


def _page(each: Described, schema: Mapping[str, Any]) -> str:
    records: Mapping[str, Any] = schema["$defs"]
    first = each.data.__name__
    parts = [
        f"# `{each.words} --json`\n\n`data` of the schema [`{each.name}`]({each.stem}.json). "
        f"{_first_line(each.data)}\n\n{_table(records[first])}"
    ]
    kinds = {kind.__name__: kind for kind in _kinds(each.data)}
    # The records of warnings are in each schema; this is a page of `data`.
    envelope = set() if _names(records, "Notice") else {"Notice"}
    for name in sorted(records.keys() - {first} - envelope):
        about = _first_line(kinds[name]) if name in kinds else ""
        parts.append(f"## {name}\n\n{about}\n\n{_table(records[name])}")
    return "\n".join(parts)


def _names(records: Mapping[str, Any], name: str) -> bool:
    """Return True if a record has fields of another one."""
    return f'"#/$defs/{name}"' in json.dumps(records)


def _kinds(data: type) -> Iterator[type]:
    """Yield the dataclasses that a dataclass is made of, itself first."""
    seen, todo = set(), [data]
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        yield kind
        for annotation in inspect.get_annotations(kind, eval_str=True).values():
            todo += [part for part in _parts(annotation) if inspect.get_annotations(part)]


def _parts(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _parts(argument)


def _table(record: Mapping[str, Any]) -> str:
    rows = [f"| `{name}` | {_kind(kind)} |\n" for name, kind in record["properties"].items()]
    return "".join(["| Field | Type |\n|---|---|\n", *rows])


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a type as a table says it.

    Example:
        >>> _kind({"type": "array", "items": {"type": "string"}})
        'list of string'
        >>> _kind({"anyOf": [{"$ref": "#/$defs/Proof"}, {"type": "null"}]})
        '[Proof](#proof) or null'
    """
    match schema:
        case {"$ref": ref}:
            name = str(ref).rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": kinds}:
            return " or ".join(map(_kind, kinds))
        case {"enum": values}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": "array", "prefixItems": kinds}:
            return f"list of {len(kinds)}: {', '.join(map(_kind, kinds))}"
        case {"type": "array", "items": kind}:
            return f"list of {_kind(kind)}"
        case {"type": "object", "additionalProperties": kind}:
            return f"object whose values are {_kind(kind)}"
        case {"type": kind}:
            return str(kind)
        case _:
            return "any"


def _first_line(kind: type) -> str:
    """Return the first line of a docstring, with the paths of Sphinx as code."""
    text = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
