"""Connection of this process's streams with a container: bytes both ways, terminal or not."""

import os
import socket
import struct
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Final, final

CHUNK: Final = 1 << 16
_HEADER: Final = struct.Struct(">BxxxL")


@final
class ReaderLeftError(Exception):
    """Whoever read this process's output is gone, as in `fdl TASK | head`."""


@final
class Wire:
    """The attached stream of one container; the engine multiplexes where there is no terminal."""

    def __init__(self, connection: socket.socket, *, tty: bool, stdin: int | None) -> None:
        self._connection = connection
        self._tty = tty
        self._stdin = stdin
        self._pending = bytearray()

    def pump(self) -> None:
        """Move bytes until the container closes its side.

        Raises:
            ReaderLeftError: stdout or stderr takes no more.
        """
        while True:
            watched: list[int | socket.socket] = [self._connection]
            if self._stdin is not None:
                watched.append(self._stdin)
            # `select.select` knows no descriptor above 1023.
            ready = wait(watched)
            if self._stdin is not None and self._stdin in ready:
                self._send_input(self._stdin)
            if self._connection in ready and not self._receive():
                return

    def _send_input(self, stdin: int) -> None:
        try:
            data = os.read(stdin, CHUNK)
        except OSError:
            # A background process may not read its terminal; it has no input then.
            data = b""
        try:
            if data:
                self._connection.sendall(data)
            else:
                self._stdin = None
                self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            # The container ended first; the rest of its output is still read below.
            self._stdin = None

    def _receive(self) -> bool:
        try:
            data = self._connection.recv(CHUNK)
        except ConnectionResetError:
            return False
        if not data:
            return False
        if self._tty:
            _write(1, data)
        else:
            self._pending += data
            take_frames(self._pending, _write)
        return True


def take_frames(pending: bytearray, write: Callable[[int, bytes], None]) -> None:
    r"""Write out all complete frames and leave the rest.

    Example:
        >>> rest = bytearray(b"\x01\0\0\0\0\0\0\x02hi\x02\0")
        >>> take_frames(rest, lambda stream, data: print(stream, data))
        1 b'hi'
        >>> rest
        bytearray(b'\x02\x00')
    """
    while len(pending) >= _HEADER.size:
        stream, length = _HEADER.unpack_from(pending)
        end = _HEADER.size + length
        if len(pending) < end:
            return
        data = bytes(pending[_HEADER.size : end])
        del pending[:end]
        write(2 if stream == 2 else 1, data)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BrokenPipeError as problem:
        raise ReaderLeftError from problem
