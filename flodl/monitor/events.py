"""The hub between runs and listeners: every change has a number, and a returning listener gets the rest."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, final

from flodl.monitor.store.records import without_nan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from flodl.monitor.store.frames import Frame
    from flodl.monitor.store.rundata import RunData

# Messages kept for those who come back.
_RING_BYTES: Final = 4 << 20
# ... within this time; without listeners, no messages are made.
_RETURN_SECONDS: Final = 60.0


@final
class EventHub:
    """The runs that are shown, and the numbered messages about them.

    Taking in a frame and telling about it are one step under one lock, and so are joining and
    getting what there is: no listener misses a message or gets one twice.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.runs: dict[str, RunData] = {}
        self._token = secrets.token_hex(4)
        self._number = 0
        self._ring: deque[tuple[int, bytes]] = deque()
        self._ring_bytes = 0
        self._left = -_RETURN_SECONDS
        self._listeners: list[Callable[[bytes], None]] = []
        # Called after something was told: who sends, sends now.
        self.wake: Callable[[], None] = _nobody

    def add(self, name: str, run: RunData) -> str:
        """Show a run; return the name under which it is known."""
        with self.lock:
            chosen, again = name, 2
            while chosen in self.runs:
                chosen, again = f"{name}-{again}", again + 1
            self.runs[chosen] = run
            self._tell("run", {"run": chosen, "snapshot": run.snapshot()})
        self.wake()
        return chosen

    def feed(self, name: str, frames: Iterable[Frame]) -> None:
        """Take in frames of a run and tell everybody what they mean."""
        with self.lock:
            run = self.runs[name]
            tell = self._is_watched()
            for frame in frames:
                for kind, data in run.apply(frame, tell=tell):
                    self._tell(kind, {"run": name, **data})
        self.wake()

    def tell(self, kind: str, name: str, data: dict[str, Any]) -> None:
        """Send all listeners a message about a run that is in no frame."""
        with self.lock:
            self._tell(kind, {"run": name, **data})
        self.wake()

    def join(self, listener: Callable[[bytes], None], last_seen: str = "") -> bytes:
        """Add a listener and return its first message.

        Args:
            listener: gets every message from now on, as bytes of an event stream.
            last_seen: the number of the last message that it got, empty for none.
        """
        with self.lock:
            self._listeners.append(listener)
            missed = self._missed(last_seen)
            if missed is not None:
                return b"".join(missed)
            return event_bytes("snapshot", self.snapshot(), self._id(self._number))

    def leave(self, listener: Callable[[bytes], None]) -> None:
        """Remove a listener."""
        with self.lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
                self._left = time.monotonic()

    @property
    def audience(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def snapshot(self) -> dict[str, Any]:
        """Return everything about every run but the values of their series."""
        with self.lock:
            return {"runs": {name: run.snapshot() for name, run in self.runs.items()}}

    def _missed(self, last_seen: str) -> Iterator[bytes] | None:
        """Return the messages after one, `None` if they are not all kept."""
        token, _, digits = last_seen.partition(".")
        if token != self._token or not digits.isdigit():
            return None
        seen = int(digits)
        oldest = self._ring[0][0] if self._ring else self._number + 1
        if not oldest - 1 <= seen <= self._number:
            return None
        return (data for number, data in self._ring if number > seen)

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        self._number += 1
        if not self._is_watched():
            # Whoever comes later gets a summary.
            self._ring.clear()
            self._ring_bytes = 0
            return
        message = event_bytes(kind, data, self._id(self._number))
        self._ring.append((self._number, message))
        self._ring_bytes += len(message)
        while self._ring_bytes > _RING_BYTES and len(self._ring) > 1:
            self._ring_bytes -= len(self._ring.popleft()[1])
        for listener in tuple(self._listeners):
            listener(message)

    def _is_watched(self) -> bool:
        """Return whether there are listeners, or were a moment ago that may come back."""
        return bool(self._listeners) or time.monotonic() - self._left < _RETURN_SECONDS

    def _id(self, number: int) -> str:
        # The token tells a restarted server from the one whose numbers were seen.
        return f"{self._token}.{number}"


def event_bytes(kind: str, data: dict[str, Any], number: str) -> bytes:
    """Return a message as the bytes of an event stream."""
    return f"id: {number}\nevent: {kind}\ndata: {json_text(data)}\n\n".encode()


def json_text(data: Any) -> str:
    """Return JSON that any parser takes, NaN and infinity written as null."""
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(without_nan(data), separators=(",", ":"), allow_nan=False)


def _nobody() -> None:
    """Stand in for a sender as long as there is none."""
