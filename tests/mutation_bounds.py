"""Bounds that hold for every mutated input: processor time, and memory beside that of an honest one."""

import time
import tracemalloc
from collections.abc import Callable
from typing import final

SECONDS = 5.0
FACTOR = 2
# Below this size the memory of an input is that of Python objects around it.
SLACK = 2_000_000


@final
class Bounds:
    """Measures calls, and keeps the worst of them.

    Example: `Bounds(lambda: load(honest))` measures the honest call, `run(lambda: load(mutated))` another
    one, and `check()` compares the worst of the others with it.
    """

    def __init__(self, honest: Callable[[], object]) -> None:
        self.seconds = 0.0
        self.bytes = 0
        self.honest = self._measured(honest)[1]

    def run(self, call: Callable[[], object]) -> object:
        """Return what a call returns; its time and its memory count, also when it raises."""
        try:
            found, size, seconds = self._measured_fully(call)
        finally:
            tracemalloc.stop()
        self.bytes, self.seconds = max(self.bytes, size), max(self.seconds, seconds)
        return found

    def check(self) -> None:
        """Require the bounds."""
        assert self.seconds <= SECONDS, f"{self.seconds:.1f} s"
        assert self.bytes <= FACTOR * self.honest + SLACK, f"{self.bytes} of {self.honest} bytes"

    def _measured(self, call: Callable[[], object]) -> tuple[object, int]:
        try:
            found, size, _ = self._measured_fully(call)
        finally:
            tracemalloc.stop()
        return found, size

    @staticmethod
    def _measured_fully(call: Callable[[], object]) -> tuple[object, int, float]:
        tracemalloc.start()
        started = time.process_time()
        found = call()
        return found, tracemalloc.get_traced_memory()[1], time.process_time() - started
