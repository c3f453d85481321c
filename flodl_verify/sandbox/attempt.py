"""Runs of user code that return errors as values: the only place that catches everything."""

from __future__ import annotations

import contextlib
import functools
import linecache
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal, TypeVar, final

T = TypeVar("T")
_RING_AGAIN_S = 0.001
# `raised` by user code; `no-inputs` were found that it takes, or there was `no-time` to look for any; a flow
# called one of its words on a `plain-value`.
FailureCode = Literal["raised", "no-inputs", "no-time", "plain-value"]
FAILURE_CODES: tuple[FailureCode, ...] = ("raised", "no-inputs", "no-time", "plain-value")
_PLAIN = (list, tuple, dict, type(None), int, float)


@final
class OutOfTimeError(BaseException):
    """The time for some user code is over; not an Exception, so that user code lets it pass."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error of user code, in one line, and its place in the file of interest.

    `frames` are the files and lines of its traceback, and `missing` is the module that an import
    did not find.
    """

    text: str
    line: int | None
    frames: tuple[tuple[str, int], ...] = field(default=(), compare=False, repr=False)
    missing: str | None = field(default=None, compare=False, repr=False)
    code: FailureCode = field(default="raised", compare=False, repr=False)

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text} (line {self.line})"


def attempt(call: Callable[[], T], file: Path | None = None) -> T | Failure:
    """Return the result of `call`, or its failure.

    `file` is the file whose line is reported: the deepest frame of the traceback that lies in it.
    """
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except (Exception, SystemExit, GeneratorExit) as problem:
        return describe(problem, file)


def describe(problem: BaseException, file: Path | None) -> Failure:
    """Turn an exception into one line of text and the line of `file` that led to it."""
    said = str(problem).strip() or _assertion(problem)
    text = f"{type(problem).__name__}: {said.splitlines()[0]}" if said else type(problem).__name__
    frames = tuple(
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(problem.__traceback__)
    )
    line = None
    if file is not None:
        line = next((line for name, line in reversed(frames) if Path(name) == file), None)
    if isinstance(problem, SyntaxError) and line is None:
        line = problem.lineno
    missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
    code: FailureCode = "plain-value" if _asks_plain_value(problem) else "raised"
    return Failure(text=text[:400], line=line, frames=frames, missing=missing, code=code)


def _asks_plain_value(problem: BaseException) -> bool:
    """Return True if a port took a value for a tensor of the flow that is none at run time."""
    if not isinstance(problem, AttributeError):
        return False
    return problem.name == "through" and isinstance(problem.obj, _PLAIN)


def _assertion(problem: BaseException) -> str:
    """Return the line of an `assert` that says nothing else."""
    if not isinstance(problem, AssertionError):
        return ""
    places = [
        (frame.f_code.co_filename, at) for frame, at in traceback.walk_tb(problem.__traceback__)
    ]
    return linecache.getline(*places[-1]).strip() if places else ""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` in the block after so many seconds."""
    if seconds <= 0:
        raise OutOfTimeError
    timer = Timer.start(seconds)
    try:
        yield
    finally:
        timer.stop()


@final
class Timer:
    """An interval timer that raises in the main thread; an outer one waits for the inner one.

    Python prints an exception of a finalizer or weakref callback and goes on. If the time is over
    just there, the error is lost, so the timer rings again a moment later:

        class Slow:
            def __del__(self):
                while True: ...         # the time is over here: the loop ends, the code goes on,
        del slow; model(x)              # and the next ring ends this call

    https://docs.python.org/3/library/sys.html#sys.unraisablehook
    """

    def __init__(
        self,
        outer_remaining: float,
        outer_handler: object,
        outer_hook: Callable[[sys.UnraisableHookArgs], object],
    ) -> None:
        self._outer_remaining = outer_remaining
        self._outer_handler = outer_handler
        self._outer_hook = outer_hook

    @classmethod
    def start(cls, seconds: float) -> Timer:
        """Arm the timer, keeping what is left of an outer one."""
        handler = signal.signal(signal.SIGALRM, _out_of_time)
        left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
        if 0 < left < seconds:
            signal.setitimer(signal.ITIMER_REAL, left)
        hook = sys.unraisablehook
        sys.unraisablehook = functools.partial(_ring_again, hook)
        return cls(left, handler, hook)

    def stop(self) -> None:
        """Disarm, and give the outer timer back what it had (the inner time is a gift to it)."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = self._outer_hook
        if callable(self._outer_handler):
            signal.signal(signal.SIGALRM, self._outer_handler)
        if self._outer_remaining > 0:
            signal.setitimer(signal.ITIMER_REAL, self._outer_remaining)


def _out_of_time(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError


def _ring_again(
    report: Callable[[sys.UnraisableHookArgs], object], lost: sys.UnraisableHookArgs
) -> None:
    """Arm the timer again if Python dropped its error; report any other dropped error."""
    if lost.exc_type is OutOfTimeError:
        signal.setitimer(signal.ITIMER_REAL, _RING_AGAIN_S)
    else:
        report(lost)
