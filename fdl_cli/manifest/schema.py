"""The options of an entry program: the output of `--fdl-schema`, checked and read.

On the path of `fdl <task>`. The document is
`{"description", "strict", "options": {NAME: {...}}, "args": [{...}], "epilog"}`;
docs/reference/tasks.md has it in full.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, final

ValueType = Literal["text", "integer", "number", "flag"]


@final
class Option(NamedTuple):
    """One option (or, without dashes, one positional argument) of an entry.

    `spellings` are all ways to write it, the longest first. `values` is None for one value, `*` or
    `+` for several, or a number of values. `negated` are the ways to switch a flag off.
    """

    name: str
    spellings: tuple[str, ...]
    type: ValueType
    summary: str
    default: str | None
    choices: tuple[str, ...]
    required: bool
    values: str | None
    repeats: bool
    negated: tuple[str, ...]
    environment: str | None


@final
class Schema(NamedTuple):
    """All options and positional arguments of an entry.

    Where `strict` is false the program knows more than it says, so nothing unknown is refused.
    """

    description: str
    strict: bool
    options: tuple[Option, ...]
    arguments: tuple[Option, ...]
    epilog: str = ""

    def find(self, word: str) -> Option | None:
        """Return the option that a word spells."""
        for option in self.options:
            if word in option.spellings or word in option.negated:
                return option
        return None

    def named(self, name: str) -> Option | None:
        """Return the option with a name; `batch_size` and `batch-size` are the same."""
        for option in self.options:
            if option.name.replace("_", "-") == name.replace("_", "-"):
                return option
        return None


def read_schema(document: Mapping[str, Any]) -> Schema:
    """Turn the JSON document of `--fdl-schema` into a schema.

    Raises:
        ValueError: the document has another form; the message says where.
    """
    options = document.get("options", {})
    arguments = document.get("args", [])
    if not isinstance(options, dict) or not isinstance(arguments, list):
        raise ValueError("`options` must be an object and `args` a list")  # noqa: TRY004 - a document
    return Schema(
        description=str(document.get("description") or ""),
        strict=document.get("strict", True) is not False,
        options=tuple(_option(name, value, dashes=True) for name, value in options.items()),
        arguments=tuple(
            _option(str(value.get("name", "")), value, dashes=False)
            for value in arguments
            if isinstance(value, dict)
        ),
        epilog=str(document.get("epilog") or ""),
    )


def _option(name: str, value: Any, *, dashes: bool) -> Option:
    if not name or not isinstance(value, dict):
        raise ValueError(f"the option `{name}` must be an object")
    kind = _type(value.get("type", "text"), name)
    short = value.get("short")
    spellings = value.get("flags") or [f"--{name}", *([f"-{short}"] if short else [])]
    default = value.get("default")
    return Option(
        name=name,
        spellings=tuple(str(word) for word in spellings) if dashes else (),
        type=kind,
        summary=str(value.get("description") or ""),
        default=None if default is None else _text(default),
        choices=tuple(_text(choice) for choice in value.get("choices") or ()),
        required=bool(value.get("required", False)),
        values="*" if value.get("variadic") else _count(value.get("count")),
        repeats=bool(value.get("repeats", False)),
        negated=tuple(str(word) for word in value.get("negated") or ()),
        environment=str(value["env"]) if value.get("env") else None,
    )


def _count(value: object) -> str | None:
    return None if value is None else str(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _type(word: object, name: str) -> ValueType:
    match word:
        case "flag" | "bool" | "boolean":
            return "flag"
        case "integer" | "int":
            return "integer"
        case "number" | "float":
            return "number"
        case "text" | "string" | "str" | "path":
            return "text"
        case _:
            raise ValueError(f"the option `{name}` has the unknown type `{word}`")
