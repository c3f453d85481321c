"""Writes one checkpoint at a time beside the training."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import final

from flodl.runs.checkpoints import Saved


@final
class Writer:
    """Runs one task at a time in a thread; reading the result raises the error of the task.

    Attributes:
        seconds: how long the last task took.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._thread: threading.Thread | None = None
        self._saved: Saved | None = None
        self._error: BaseException | None = None

    def begin(self, task: Callable[[], Saved]) -> None:
        """Begin a task, after the one before is done."""
        self._join()
        # Not a daemon: a program that ends waits for its last checkpoint.
        self._thread = threading.Thread(target=self._run, args=(task,), name="flodl-checkpoint")
        self._thread.start()

    def result(self, *, wait: bool) -> Saved | None:
        """Return the result of the last task, once; None while it runs, unless `wait`."""
        if self._thread is not None and self._thread.is_alive() and not wait:
            return None
        self._join()
        error, self._error = self._error, None
        if error is not None:
            raise error
        saved, self._saved = self._saved, None
        return saved

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, task: Callable[[], Saved]) -> None:
        began = time.monotonic()
        try:
            self._saved = task()
        except BaseException as error:  # raised again by `result`
            self._error = error
        self.seconds = time.monotonic() - began
