"""One piece of work in a thread, while the caller does another; its outcome is taken later.

Example: a sum over ranks that takes 20 ms, and a window of 100 ms that is trained meanwhile.

    begin   the thread gathers rows and adds up; torch and sockets release the interpreter lock
    100 ms  the caller trains
    take    the outcome is there already; an error of the thread is raised here, in the caller
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Background(Generic[T]):
    """Work that begins at once, in a thread that dies with the process.

    Args:
        work: is called in the thread.

    Example:
        >>> Background(lambda: 3 + 4).take()
        7
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="averaging", daemon=True)
        self._thread.start()

    def take(self) -> T:
        """Wait for the work, and return its outcome.

        Raises:
            BaseException: what the work raised.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:  # the caller decides, as if it had done the work itself
            self._error = error
