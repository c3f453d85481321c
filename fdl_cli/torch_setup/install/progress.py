"""Progress of a download: a bar on a terminal, a plain line now and then in a pipe."""

import threading
import time
from types import TracebackType
from typing import Final, Self, final

from fdl_cli.console import Console
from fdl_cli.console import Progress as Bar

LINE_SECONDS: Final = 10.0
MB: Final = 1e6


@final
class DownloadProgress:
    """Passes bytes and messages on to the console; safe to call from several threads."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._context = console.progress(title)
        self._bar: Bar | None = None
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0
        self._last = time.monotonic()
        # Lines between the frames of a bar would tear it apart.
        self._lines = not console.err.isatty()

    def __enter__(self) -> Self:
        self._bar = self._context.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._context.__exit__(kind, problem, trace)

    def expect(self, total: int) -> None:
        """Learn how much there is in all."""
        self._total = total
        if self._bar is not None:
            self._bar.set_total(total)
        if total:
            self._console.note(f"downloading {total / MB:.0f} MB")

    def advance(self, delta: int) -> None:
        """Count bytes, and write a line when the last one is long ago."""
        with self._lock:
            self._done += delta
            if self._bar is not None:
                self._bar.advance(delta)
            now = time.monotonic()
            if self._lines and now - self._last >= LINE_SECONDS:
                self._last = now
                self._console.note(f"{self._done / MB:.0f} of {self._total / MB:.0f} MB")

    def say(self, message: str) -> None:
        """Write a message."""
        with self._lock:
            self._console.note(message)
