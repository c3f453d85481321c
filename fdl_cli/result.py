"""Result of a command, and the one place that turns it into a JSON envelope."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Generic, TypeVar, final

from fdl_cli import __version__
from fdl_cli.errors import FdlError, Notice

Payload = TypeVar("Payload")
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult(Generic[Payload]):
    """The outcome of one command: a payload, its schema name, warnings and the exit code.

    `data` is a frozen dataclass (or a mapping of plain values); every key is always present.
    """

    schema: str
    data: Payload
    ok: bool = True
    warnings: tuple[Notice, ...] = ()
    exit_code: int = 0


def to_json(value: object) -> Json:
    """Turn frozen values into plain ones that `json` can write.

    Example:
        >>> to_json((Notice(id="a", message="b", hint="c"), PurePath("x")))
        [{'id': 'a', 'message': 'b', 'hint': 'c'}, 'x']
    """
    if isinstance(value, Enum):
        return to_json(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    return _container_to_json(value)


def _container_to_json(value: object) -> Json:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_json(item) for item in value), key=str)
    raise TypeError(f"a result holds a {type(value).__name__}, which has no JSON form")


def envelope(result: CommandResult[Payload]) -> str:
    """Return the JSON document of a finished command."""
    document: dict[str, Json] = {
        "schema": result.schema,
        "fdl": __version__,
        "ok": result.ok,
        "data": to_json(result.data),
        "warnings": to_json(result.warnings),
    }
    return json.dumps(document, indent=2)


def error_envelope(schema: str, error: FdlError) -> str:
    """Return the JSON document of a command that failed before it had a result."""
    document: dict[str, Json] = {
        "schema": schema,
        "fdl": __version__,
        "ok": False,
        "error": {
            "id": error.error_id,
            "message": error.message,
            "hint": error.hint,
            "file": error.file,
            "line": error.line,
            "causes": to_json(error.causes),
        },
        "warnings": [],
    }
    return json.dumps(document, indent=2)
