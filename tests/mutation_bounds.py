"""Bounds that hold for every mutated input: processor time, and memory beside that of an honest one."""

import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import final

SECONDS = 5.0
FACTOR = 2
# Below this size the memory of an input is that of buffers and Python objects around it.
SLACK = 500_000


@final
class Bounds:
    """Measures calls, and keeps the worst of them.

    Example: `Bounds(lambda: load(honest))` measures the honest call, `run(lambda: load(mutated))` another
    one, and `check()` compares the worst of the others with it. Whoever calls counts the `outcomes`.
    """

    def __init__(self, honest: Callable[[], object]) -> None:
        self.outcomes: Counter[str] = Counter()
        self.seconds = 0.0
        self.bytes = 0
        self.run(honest)
        self.honest, self.bytes = self.bytes, 0

    def run(self, call: Callable[[], object]) -> object:
        """Return what a call returns; its time and its memory count, also when it raises."""
        tracemalloc.start()
        started = time.process_time()
        try:
            return call()
        finally:
            self.seconds = max(self.seconds, time.process_time() - started)
            self.bytes = max(self.bytes, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    @property
    def worst(self) -> dict[str, float]:
        """The worst of all calls, beside the memory of the honest one."""
        return {"seconds": self.seconds, "bytes": self.bytes, "honest_bytes": self.honest}

    def check(self) -> None:
        """Require the bounds."""
        assert self.seconds <= SECONDS, f"{self.seconds:.1f} s"
        assert self.bytes <= FACTOR * self.honest + SLACK, f"{self.bytes} of {self.honest} bytes"
