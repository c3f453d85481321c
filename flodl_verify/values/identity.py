"""Weak tables by identity, for objects whose class has its own `__eq__` and `__hash__`.

A metric of torchmetrics is an example: its hash reads what its constructor sets later.

    table = IdentityTable()
    table[metric] = "made with 4 classes"
    table.get(metric)
"""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class IdentityTable(Generic[T]):
    """Values by object; an entry ends with its object. Objects are neither hashed nor compared."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[object], T]] = {}

    def __setitem__(self, key: object, value: T) -> None:
        number = id(key)

        def forget(gone: weakref.ref[object]) -> None:
            # The number may belong to a later object already.
            found = self._entries.get(number)
            if found is not None and found[0] is gone:
                del self._entries[number]

        self._entries[number] = weakref.ref(key, forget), value

    def __contains__(self, key: object) -> bool:
        found = self._entries.get(id(key))
        return found is not None and found[0]() is key

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: object) -> T | None:
        """Return the value of an object, or nothing."""
        return self._entries[id(key)][1] if key in self else None
