"""Lists in a store: texts that any process appends, and that each process reads in the same order.

Example: the process that began a training asks its ranks twice.

    append(store, "request", "save")       requests = 1, request/1 = save
    append(store, "request", "evaluate")   requests = 2, request/2 = evaluate
    StoreList(store, "request").new()      ["save", "evaluate"], and [] when called again
"""

from __future__ import annotations

from typing import final

from torch._C._distributed_c10d import Store


def append(store: Store, name: str, text: str) -> None:
    """Append a text to a list.

    Args:
        store: the store.
        name: the name of an item of the list.
        text: the text.

    Example:
        >>> from torch.distributed import HashStore
        >>> store = HashStore()
        >>> append(store, "want", "2")
        >>> StoreList(store, "want").new()
        ['2']
    """
    number = store.add(f"{name}s", 1)
    store.set(f"{name}/{number}", text)


@final
class StoreList:
    """A list in a store, as one reader sees it.

    Args:
        store: the store; the connection is used by the thread that calls `new`.
        name: the name of an item of the list.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._read = 0

    def new(self) -> list[str]:
        """Return the texts that were appended since the last call; it does not wait."""
        found: list[str] = []
        while self._read < self._store.add(f"{self._name}s", 0):
            key = f"{self._name}/{self._read + 1}"
            if not self._store.check([key]):  # counted, and not written yet
                break
            found.append(self._store.get(key).decode())
            self._read += 1
        return found
