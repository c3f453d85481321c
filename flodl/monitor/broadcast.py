"""Sending messages to all listeners with one thread; slow ones are cut off, so no other waits."""

from __future__ import annotations

import contextlib
import math
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from flodl.monitor.events import EventHub

HEARTBEAT_SECONDS: Final = 15.0
# A page that lags behind by more than this is cut off; it comes back and gets a summary.
MOST_WAITING_BYTES: Final = 4 << 20
# At the end, who has not taken everything yet gets this long.
FAREWELL_SECONDS: Final = 1.0
_HEARTBEAT: Final = b": still here\n\n"


@final
class Client:
    """One open event stream and what it has yet to get."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.overrun = False
        self._waiting: deque[bytes] = deque()
        # Two counters of bytes, each changed by one side only: those put and those sent.
        self._put = 0
        self._sent = 0
        self._offset = 0

    def put(self, data: bytes) -> None:
        """Add a message, under the lock of the hub; one too many has the client cut off."""
        # The first message may be large; later ones must not pile up.
        if self._waiting and self._put - self._sent + len(data) > MOST_WAITING_BYTES:
            self.overrun = True
        if not self.overrun:
            self._waiting.append(data)
            self._put += len(data)

    def send(self) -> bool:
        """Send what the socket takes now; return whether something is left.

        Raises:
            OSError: the client is gone.
        """
        while self._waiting:
            data = self._waiting[0]
            try:
                sent = self.connection.send(memoryview(data)[self._offset :])
            except (BlockingIOError, InterruptedError):
                return True
            self._offset += sent
            self._sent += sent
            if self._offset == len(data):
                self._waiting.popleft()
                self._offset = 0
        return False


@final
class Broadcaster:
    """The thread that owns the event streams."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._clients: dict[socket.socket, Client] = {}
        self._new: deque[tuple[socket.socket, str]] = deque()
        self._selector = selectors.DefaultSelector()
        self._inner, self._outer = socket.socketpair()
        self._inner.setblocking(False)
        self._outer.setblocking(False)
        self._selector.register(self._inner, selectors.EVENT_READ)
        self._stopping = self._ended = False
        self._thread = threading.Thread(target=self._run, name="flodl-broadcast", daemon=True)
        self._thread.start()
        hub.wake = self.wake

    def attach(self, connection: socket.socket, last_seen: str) -> None:
        """Take over a connection whose headers have been sent; one that comes too late is closed."""
        connection.setblocking(False)
        # Little in the kernel, so that whoever is slow is noticed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        self._new.append((connection, last_seen))
        self.wake()
        if self._ended:
            self._turn_away()

    def wake(self) -> None:
        """Have what waits sent now."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._outer.send(b"\0")

    def stop(self) -> None:
        """Send what waits to those who read, close every stream and end the thread."""
        self._stopping = True
        self.wake()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        beat = time.monotonic() + HEARTBEAT_SECONDS
        end = math.inf
        while True:
            self._wait(min(beat, end))
            # Checked before anything is sent: messages from before the request to end are sent.
            if self._stopping and end == math.inf:
                end = time.monotonic() + FAREWELL_SECONDS
            self._welcome()
            if time.monotonic() >= beat:
                beat = time.monotonic() + HEARTBEAT_SECONDS
                with self._hub.lock:
                    for client in self._clients.values():
                        client.put(_HEARTBEAT)
            left = [self._serve(client) for client in tuple(self._clients.values())]
            if end < math.inf and (not any(left) or time.monotonic() >= end):
                break
        for client in tuple(self._clients.values()):
            self._drop(client)
        self._ended = True
        self._turn_away()
        self._selector.close()
        self._inner.close()
        self._outer.close()

    def _wait(self, until: float) -> None:
        """Wait for data to send, and find clients that left."""
        for key, events in self._selector.select(timeout=max(0.0, until - time.monotonic())):
            if key.fileobj is self._inner:
                with contextlib.suppress(BlockingIOError):
                    self._inner.recv(4096)
            elif events & selectors.EVENT_READ:
                self._read(self._clients.get(key.data))

    def _welcome(self) -> None:
        while self._new:
            connection, last_seen = self._new.popleft()
            client = Client(connection)
            with self._hub.lock:
                first = self._hub.join(client.put, last_seen)
                # Nothing can have been put before: the lock is held.
                client.put(first or _HEARTBEAT)
            self._clients[connection] = client
            self._selector.register(connection, selectors.EVENT_READ, connection)

    def _turn_away(self) -> None:
        """Close connections that came too late, so that they do not wait for an answer."""
        with contextlib.suppress(IndexError):
            while True:
                connection, _ = self._new.popleft()
                connection.close()

    def _read(self, client: Client | None) -> None:
        if client is None:
            return
        try:
            gone = not client.connection.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            gone = True
        if gone:
            self._drop(client)

    def _serve(self, client: Client) -> bool:
        """Send to one what waits; return whether something is left for later."""
        try:
            left = client.send()
        except OSError:
            self._drop(client)
            return False
        if client.overrun:
            self._drop(client)
            return False
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0)
        if self._selector.get_key(client.connection).events != wanted:
            self._selector.modify(client.connection, wanted, client.connection)
        return left

    def _drop(self, client: Client) -> None:
        self._hub.leave(client.put)
        if self._clients.pop(client.connection, None) is not None:
            self._selector.unregister(client.connection)
        with contextlib.suppress(OSError):
            client.connection.shutdown(socket.SHUT_RDWR)
        client.connection.close()
