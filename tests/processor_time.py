"""How much of the processor something takes: unlike the clock, the same on a machine that is busy."""

import resource
from collections.abc import Callable


def of_children() -> float:
    """Return the seconds that ended children of this process have taken so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def least_of(times: int, run: Callable[[], object]) -> float:
    """Run something several times and return the least that its children took."""
    taken = []
    for _ in range(times):
        before = of_children()
        run()
        taken.append(of_children() - before)
    return min(taken)
