"""Transfer of a body through a few buffers, each for the file and for the checksum.

The buffers are used again and again: fresh memory for every piece costs more than receiving it.
"""

import queue
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, final

from fdl_cli.net.digest import RunningDigest

if TYPE_CHECKING:
    import httpx

    from fdl_cli.net.fast_transport import DirectBody

_BUFFER_BYTES: Final = 256 * 1024
_BUFFERS: Final = 6
# On a slow line a kill must not cost a whole buffer.
_WRITE_SECONDS: Final = 0.1


@final
class Blocks:
    """Writes the arriving bytes; `received` counts every byte, written or not."""

    def __init__(self, file: BinaryIO, digest: RunningDigest) -> None:
        self.received = 0
        self._file = file
        self._digest = digest
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        for _ in range(_BUFFERS):
            self._free.put(bytearray(_BUFFER_BYTES))
        self._buffer: bytearray | None = None
        self._filled = 0
        self._last = time.monotonic()

    def receive(self, response: "httpx.Response", *, decoded: bool) -> Iterator[int]:
        """Take in the body; yield the count of bytes now and then."""
        from fdl_cli.net.fast_transport import direct_body

        direct = None if decoded else direct_body(response)
        if direct is not None:
            yield from self._receive_directly(direct)
            return
        for block in response.iter_bytes() if decoded else response.iter_raw():
            self._copy(memoryview(block))
            yield len(block)

    def flush(self) -> None:
        """Write the bytes that have arrived."""
        buffer, filled = self._buffer, self._filled
        self._buffer, self._filled = None, 0
        self._last = time.monotonic()
        if buffer is None:
            return
        block = memoryview(buffer)[:filled]
        self._file.write(block)
        self._file.flush()
        self._digest.feed(block, lambda: self._free.put(buffer))

    def _receive_directly(self, body: "DirectBody") -> Iterator[int]:
        left = body.length
        before = self.received
        while left:
            count = body.read_into(self._room()[:left])
            if not count:
                break
            left -= count
            if self._took(count):
                yield self.received - before
                before = self.received
        yield self.received - before

    def _copy(self, block: memoryview) -> None:
        while block:
            room = self._room()
            count = min(len(room), len(block))
            room[:count] = block[:count]
            block = block[count:]
            self._took(count)

    def _room(self) -> memoryview:
        if self._buffer is None:
            # Waits for the checksum when it is far behind.
            self._buffer = self._free.get()
        return memoryview(self._buffer)[self._filled :]

    def _took(self, count: int) -> bool:
        """Count bytes that are in the buffer; true when they were written."""
        self.received += count
        self._filled += count
        if self._filled < _BUFFER_BYTES and time.monotonic() - self._last < _WRITE_SECONDS:
            return False
        self.flush()
        return True
