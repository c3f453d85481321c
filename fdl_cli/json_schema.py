"""JSON Schema of a frozen dataclass, for `fdl <command> --json-schema`."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fdl_cli.errors import Notice
from fdl_cli.result import Json

_PLAIN: tuple[tuple[type, str], ...] = (
    # bool before int: it is a subclass of it.
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (PurePath, "string"),
    (type(None), "null"),
)

Schema = dict[str, Json]


def envelope_schema(name: str, data: type) -> Schema:
    """Return the JSON Schema of everything a command may print with `--json`.

    Both endings are described: `ok` with `data`, and the failure with `error`.
    """
    definitions: dict[str, Json] = {}
    payload = type_schema(data, definitions)
    notices: Schema = {"type": "array", "items": type_schema(Notice, definitions)}
    text: Schema = {"type": "string"}
    error: Schema = {
        "type": "object",
        "properties": {
            "id": text,
            "message": text,
            "hint": text,
            "file": {"type": ["string", "null"]},
            "line": {"type": ["integer", "null"]},
            "causes": {"type": "array", "items": text},
        },
        "required": ["id", "message", "hint", "file", "line", "causes"],
        "additionalProperties": False,
    }
    properties: dict[str, Json] = {
        "schema": {"const": name},
        "fdl": text,
        "ok": {"type": "boolean"},
        "data": payload,
        "error": error,
        "warnings": notices,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "type": "object",
        "properties": properties,
        "required": ["schema", "fdl", "ok", "warnings"],
        "oneOf": [{"required": ["data"]}, {"required": ["error"]}],
        "additionalProperties": False,
        "$defs": definitions,
    }


def type_schema(annotation: Any, definitions: dict[str, Json]) -> Schema:
    """Return the schema of one annotation; dataclasses go into `definitions` by name.

    Example:
        >>> type_schema(tuple[int, ...], {})
        {'type': 'array', 'items': {'type': 'integer'}}
    """
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(part, definitions) for part in get_args(annotation)]}
    if origin is Literal:
        return {"enum": list(get_args(annotation))}
    if origin is not None:
        return _generic_schema(annotation, origin, definitions)
    if is_dataclass(annotation) and isinstance(annotation, type):
        return _dataclass_schema(annotation, definitions)
    if annotation is Any or annotation is object:
        return {}
    return _plain_schema(annotation)


def _plain_schema(annotation: Any) -> Schema:
    if isinstance(annotation, type):
        if issubclass(annotation, Enum):
            return {"enum": [member.value for member in annotation]}
        for kind, name in _PLAIN:
            if issubclass(annotation, kind):
                return {"type": name}
        if issubclass(annotation, Mapping):
            return {"type": "object"}
    raise TypeError(f"{annotation!r} has no JSON Schema")


def _generic_schema(annotation: Any, origin: Any, definitions: dict[str, Json]) -> Schema:
    arguments = get_args(annotation)
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        items = [type_schema(part, definitions) for part in arguments]
        return {"type": "array", "prefixItems": [*items], "minItems": len(items), "items": False}
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": type_schema(arguments[1], definitions)}
    if origin in (tuple, list, set, frozenset):
        return {"type": "array", "items": type_schema(arguments[0], definitions)}
    raise TypeError(f"{annotation!r} has no JSON Schema")


def _dataclass_schema(kind: type, definitions: dict[str, Json]) -> Schema:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = None  # reserves the name: a dataclass may contain itself
        hints = get_type_hints(kind)
        # The caller checked `is_dataclass`; mypy cannot carry that across the call.
        names = [field.name for field in fields(kind)]
        properties: dict[str, Json] = {key: type_schema(hints[key], definitions) for key in names}
        definitions[name] = {
            "type": "object",
            "properties": properties,
            "required": [*names],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}
