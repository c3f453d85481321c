"""Checksum of a file, computed in a thread beside its transfer.

`hashlib` lets other threads run, so on two cores the checksum takes no extra time.
"""

import hashlib
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

_READ: Final = 1 << 20
_Fed = tuple[memoryview, Callable[[], None]]


@final
class RunningDigest:
    """The checksum of the first `position` bytes of a part, while more are appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._position = 0
        self._blocks: queue.SimpleQueue[_Fed | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start_at(self, start: int) -> None:
        """Get ready for bytes from `start` on; the bytes before it are read from the part."""
        self.wait()
        if self._position != start:
            self._digest = hashlib.sha256()
            self._position = 0
            with self._path.open("rb") as file:
                while self._position < start:
                    block = file.read(min(_READ, start - self._position))
                    if not block:
                        break
                    self._digest.update(block)
                    self._position += len(block)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def feed(self, block: memoryview, done: Callable[[], None]) -> None:
        """Take the next bytes; `done` is called when their memory is no longer needed."""
        self._blocks.put((block, done))

    def wait(self) -> None:
        """Wait until everything that was fed is part of the checksum."""
        if self._thread is not None:
            self._blocks.put(None)
            self._thread.join()
            self._thread = None

    def of_size(self, size: int) -> str | None:
        """Return the checksum if it is that of a file of this size, else None."""
        self.wait()
        return self._digest.hexdigest() if self._position == size else None

    def _work(self) -> None:
        while (fed := self._blocks.get()) is not None:
            block, done = fed
            self._digest.update(block)
            self._position += len(block)
            done()
