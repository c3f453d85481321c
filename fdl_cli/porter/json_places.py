"""Places of the values in a JSON text, so that one can be exchanged and the rest kept."""

import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import final

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"[^,\]\}\s]+")


@final
@dataclass(frozen=True, slots=True)
class Place:
    """The place of one value, and of the values in it; `keys` name the parts of an object."""

    start: int
    end: int
    parts: "tuple[Place, ...]" = ()
    keys: tuple[str, ...] = field(default=())

    def item(self, key: str) -> "Place":
        """Return the place of an object's value.

        Raises:
            ValueError: there is no such key.
        """
        return self.parts[self.keys.index(key)]

    def items(self, key: str) -> "tuple[Place, ...]":
        """Return the places of the values in the list that is an object's value."""
        return self.item(key).parts


def places(text: str) -> Place:
    """Return the place of everything in a JSON text, which must be valid."""
    return _value(text, _skip(text, 0))


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _value(text: str, at: int) -> Place:
    if text[at] == '"':
        return Place(at, scanstring(text, at + 1)[1])
    if text[at] in "[{":
        return _container(text, at)
    found = _SCALAR.match(text, at)
    if found is None:
        raise ValueError(f"no value at character {at}")
    return Place(at, found.end())


def _container(text: str, start: int) -> Place:
    is_object = text[start] == "{"
    keys: list[str] = []
    parts: list[Place] = []
    at = _skip(text, start + 1)
    while text[at] not in "]}":
        if is_object:
            key, at = scanstring(text, at + 1)
            keys.append(key)
            at = _skip(text, _skip(text, at) + 1)  # the colon
        parts.append(_value(text, at))
        at = _skip(text, parts[-1].end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return Place(start, at + 1, tuple(parts), tuple(keys))
