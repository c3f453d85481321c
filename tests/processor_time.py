"""How much of the processor something takes: unlike the clock, the same on a machine that is busy."""

import resource
import time
from collections.abc import Callable
from typing import TypeVar


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


T = TypeVar("T")


def least_of(times: int, run: Callable[[], T]) -> tuple[float, T]:
    """Run something several times; return the least of processor time its children took, and an answer.

    What waits takes none, so the clock may not show much more than the processor's time.
    """
    taken, elapsed = [], []
    for _ in range(times):
        before, started = _of_children(), time.monotonic()
        answer = run()
        elapsed.append(time.monotonic() - started)
        taken.append(_of_children() - before)
    # Half a dozen processes may share a core with it.
    assert min(elapsed) < 6 * min(taken) + 1.0, "it waits"
    return min(taken), answer
