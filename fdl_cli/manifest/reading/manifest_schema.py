"""JSON Schema of `fdl.yml`, from the same table of keys that checks it."""

from collections.abc import Mapping
from typing import Any, Final

from fdl_cli.manifest.reading.rules import (
    BUILD_KEYS,
    FORWARD_WORDS,
    PROJECT_KEYS,
    SERVICE_KEYS,
    TASK_KEYS,
    Key,
    Kind,
)

_SCALAR: Final = {"type": ["string", "number", "boolean", "null"]}
_TEXT: Final = {"type": ["string", "number", "null"]}
_TEXTS: Final = {"type": "array", "items": {"type": ["string", "number"]}}
_KINDS: Final[Mapping[Kind, Mapping[str, Any]]] = {
    "text": _TEXT,
    "flag": {"type": ["boolean", "null"]},
    "words": {"anyOf": [_TEXT, {**_TEXTS, "minItems": 1}]},
    "texts": _TEXTS,
    "scalars": {"type": "object", "additionalProperties": _SCALAR},
    "options": {"type": "object", "additionalProperties": {"anyOf": [_SCALAR, _TEXTS]}},
    "tasks": {"type": "object", "additionalProperties": {"$ref": "#/$defs/task"}},
    "services": {"type": "object", "additionalProperties": {"$ref": "#/$defs/service"}},
    "build": {"anyOf": [_TEXT, {"$ref": "#/$defs/build"}]},
    "forward": {"enum": [*FORWARD_WORDS, None]},
    "venv": {"anyOf": [_TEXT, {"const": False}]},
}


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema of a manifest or an overlay."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fdl.yml",
        **_table(PROJECT_KEYS),
        "$defs": {
            "task": {"anyOf": [_table(TASK_KEYS), {"type": "null"}]},
            "service": {"anyOf": [_table(SERVICE_KEYS), {"type": "null"}]},
            "build": _table(BUILD_KEYS),
        },
    }


def _table(keys: Mapping[str, Key]) -> dict[str, Any]:
    properties = {
        name: {**_KINDS[key.kind], "description": key.summary} for name, key in keys.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}
