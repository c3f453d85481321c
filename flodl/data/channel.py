"""A queue of bounded length between two threads that either side can close at any time."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar, final

Item = TypeVar("Item")


@final
class Channel(Generic[Item]):
    """Items in order; after the last one comes an end or an error, exactly once.

    A reentrant lock: a signal handler may close the channel while its own thread waits here.
    """

    def __init__(self, capacity: int) -> None:
        self._items: deque[Item] = deque()
        self._changed = threading.Condition(threading.RLock())
        self._capacity = capacity
        self._closed = False
        self._finished = False
        self._error: BaseException | None = None

    def put(self, item: Item) -> bool:
        """Add an item as soon as there is room; False means that the reader is gone."""
        with self._changed:
            while len(self._items) >= self._capacity and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def finish(self, error: BaseException | None = None) -> None:
        """Note that no further item comes, and why."""
        with self._changed:
            self._finished = True
            self._error = error
            self._changed.notify_all()

    def get(self) -> Item | None:
        """Return the next item, nothing after the last; raise the error of the other side in its turn."""
        with self._changed:
            while not (self._items or self._finished or self._closed):
                self._changed.wait()
            if self._items and not self._closed:
                item = self._items.popleft()
                self._changed.notify_all()
                return item
            error, self._error = self._error, None
            if error is not None and not self._closed:
                raise error
            return None

    def drained(self) -> bool:
        """Wait until everything has been taken; False means that the reader is gone."""
        with self._changed:
            while self._items and not self._closed:
                self._changed.wait()
            return not self._closed

    def resize(self, capacity: int) -> None:
        """Change how many items may wait."""
        with self._changed:
            self._capacity = capacity
            self._changed.notify_all()

    def close(self) -> None:
        """Drop the waiting items and wake both sides."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._items)
