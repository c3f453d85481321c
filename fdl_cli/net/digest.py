"""Compute the checksum of a file beside its transfer, in a thread of its own.

`hashlib` lets other threads run, so on two cores the checksum costs no time of its own.
"""

import hashlib
import queue
import threading
from pathlib import Path
from typing import Final, final

_WAITING_BLOCKS: Final = 8
_READ: Final = 1 << 20


@final
class RunningDigest:
    """The checksum of the first `position` bytes of a part, while more are appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = hashlib.sha256()
        self._position = 0
        self._blocks: queue.Queue[bytes | None] = queue.Queue(_WAITING_BLOCKS)
        self._thread: threading.Thread | None = None

    def start_at(self, start: int) -> None:
        """Get ready for bytes from `start` on; what stands before is read from the part."""
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

    def feed(self, block: bytes) -> None:
        """Take the next bytes; waits when the digest is far behind."""
        self._blocks.put(block)

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
        while (block := self._blocks.get()) is not None:
            self._digest.update(block)
            self._position += len(block)
