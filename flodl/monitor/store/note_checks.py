"""Checks of the structure of notes: a frame with a sound checksum may still hold anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# No note that flodl writes nests deeper; a page and `json` walk values by recursion.
DEEPEST: Final = 32


def is_sound(kind: object, data: object) -> bool:
    """Return True if a note is one that `RunData` and the page can read.

    Notes of a kind that is not known pass: a later version may have written them.
    """
    if not isinstance(kind, str) or not isinstance(data, dict) or not _is_shallow(data, DEEPEST):
        return False
    fields = _FIELDS.get(kind, {})
    return all(
        check(data[name]) if name in data else name not in _REQUIRED.get(kind, ())
        for name, check in fields.items()
    )


def _is_shallow(value: object, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_is_shallow(each, depth - 1) for each in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_shallow(each, depth - 1) for each in value)
    return True


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**53)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


_NOTICE: Final = {"kind": _is_text, "message": _is_text, "metric": _is_text, "time": _is_number}
_FIELDS: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    "start": {
        "title": _or_none(_is_text), "total": _or_none(_is_count), "pid": _is_count, "host": _is_text,
        "hardware": _is_text, "accepts": _is_texts, "time": _is_number,
    },
    "epoch": {
        "epoch": _is_count, "duration": _is_number, "metrics": _is_numbers, "resources": _is_numbers,
        "time": _is_number, "step": _or_none(_is_number), "eta": _or_none(_is_number),
    },
    "alert": _NOTICE,
    "event": _NOTICE,
    "identity": {"label": _is_text, "hash": _is_text},
    "graph": {"svg": _is_text},
    "finish": {"time": _or_none(_is_number)},
}  # fmt: skip
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "epoch": ("epoch", "duration", "metrics", "resources", "time"),
    "alert": ("kind", "message", "time"),
    "event": ("kind", "message", "time"),
    "graph": ("svg",),
}
