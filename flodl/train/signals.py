"""Signals to end a training: obeyed at the next safe moment, and the second one at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Self, final

# SIGUSR1 is what batch systems send before they take the machine away.
_NAMES: Final = ("SIGTERM", "SIGINT", "SIGUSR1")
_PATIENCE: Final = 3.0
# `timeout`, batch systems and runners signal a process and its group: one request arrives twice.
_ECHO_SECONDS: Final = 0.2


# Those that watch now. A wait far below the loop asks them.
_watching: list[Signals] = []


def asked_to_end() -> int:
    """Return the number of the signal that the training which runs now has got, 0 for none."""
    return next((each.number() for each in _watching if each.received), 0)


@final
class StopNow(BaseException):
    """Raised by a signal while the training waits; not an `Exception`, which user code may swallow."""


@final
class Signals:
    """Watches for signals while a training runs; `received` is the name of the first one.

    Attributes:
        received: the first signal, empty before.
        waiting: true while nothing would be lost by giving up what is being done.
        abrupt: whether that holds from the first moment of the wait, or only when it takes long.
        forced: whether a wait was given up that should have been waited for.
    """

    def __init__(self, notice: Callable[[], object]) -> None:
        """Watch; `notice` is called from the signal handler and must be quick."""
        self.received = ""
        self.waiting = False
        self.abrupt = True
        self.forced = False
        self._notice = notice
        self._before: dict[int, Any] = {}
        self._first_at = 0.0
        self._timer: threading.Timer | None = None
        self._nudged = False
        self._process = os.getpid()

    def __enter__(self) -> Self:
        """Begin to watch; only the main thread can."""
        _watching.append(self)
        if threading.current_thread() is threading.main_thread():
            for name in _NAMES:
                number = signal.Signals.__members__.get(name)
                # Signals ignored on purpose (nohup, a parent's choice) stay ignored.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching; handlers of before are back."""
        _watching.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if os.getpid() != self._process:
            # A forked child, such as a worker of a loader, has nothing to save.
            _end_by(number)
            return
        if self._nudged:
            self._nudged = False
            self.forced = True
        elif self.received:
            if time.monotonic() - self._first_at < _ECHO_SECONDS:
                return
            # Asked twice: checkpoints are whole at every moment, so nothing is damaged by this.
            _end_by(number)
            return
        else:
            self.received = signal.Signals(number).name
            self._first_at = time.monotonic()
            self._notice()
            if self.waiting and not self.abrupt:
                self._be_patient(number)
                return
        if self.waiting:
            self.waiting = False
            raise StopNow

    def _be_patient(self, number: int) -> None:
        """Interrupt the wait all the same when it lasts."""
        main = threading.main_thread().ident

        def nudge() -> None:
            if self.waiting and main is not None:
                self._nudged = True
                signal.pthread_kill(main, number)

        self._timer = threading.Timer(_PATIENCE, nudge)
        self._timer.daemon = True
        self._timer.start()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end what is done inside, at once.

        Put only code of the user inside. A signal between two statements that belong together, such as a
        swap of weights, would leave half of them done.

        Raises:
            StopNow: a signal came, now or before.
        """
        self.abrupt = self.waiting = True
        try:
            if self.received:
                raise StopNow
            yield
        finally:
            self.waiting = False

    def number(self) -> int:
        """Return the number of the signal that was received."""
        return int(signal.Signals[self.received])


def _end_by(number: int) -> None:
    """End this process as the signal would have done without a handler."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
