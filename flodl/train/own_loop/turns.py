"""Work that takes turns with its caller: a thread of which only one side runs at a time.

Example: a window of two batches. The windows of policy Sync call a train function; the loop of a user
takes batches. Each side sees a plain call:

    caller   take()        waits            gets batch 0      take(loss)   waits
    work     begins        tell(batch 0)    waits             gets loss, ends batch 0, tell(batch 1)
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """The work is over.

    Attributes:
        error: the error that it raised, if it did.
    """

    error: BaseException | None = None


@final
class Turns:
    """A thread that works when it has the turn, and dies with the process.

    Args:
        work: is called with a function `tell(value)`, which gives the turn back, and returns what the
            caller says when it gives the turn again.

    Attributes:
        is_running: whether the work has the turn; the caller sees this only if its wait was interrupted.

    Example:
        >>> turns = Turns(lambda tell: tell(tell("first") + 1))
        >>> turns.take(), turns.take(6), turns.take()
        ('first', 7, Ended(error=None))
    """

    def __init__(self, work: Callable[[Callable[[Any], Any]], object]) -> None:
        self.is_running = False
        self._work = work
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flodl own loop", daemon=True)
        self._thread.start()

    def take(self, answer: Any = None) -> Any:
        """Give the turn to the work, and return what it tells next; `Ended` when it is over."""
        self.is_running = True
        self._answers.put(answer)
        told = self._told.get()
        self.is_running = False
        return told

    def _tell(self, value: Any) -> Any:
        self._told.put(value)
        return self._answers.get()

    def _run(self) -> None:
        self._answers.get()
        try:
            self._work(self._tell)
        except BaseException as error:  # the caller decides, as if it had done the work itself
            self._told.put(Ended(error))
        else:
            self._told.put(Ended())
