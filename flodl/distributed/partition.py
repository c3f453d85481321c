"""Division of identical units of work among ranks of unequal speed.

Example: 7 units, on ranks that need 10 ms and 25 ms for one.

    even share   7 / (1/10 + 1/25) = 50 ms  ->  floors of 50/10 and 50/25: 5 and 2, all 7 are given
    8 units      57.1 ms                    ->  5 and 2; the last unit goes where it ends first:
                                                6 * 10 = 60 ms or 3 * 25 = 75 ms, so 6 and 2

No other division ends earlier: a greedy choice by the end of the next unit is optimal for identical
units, and the floors of the even share are its first choices, found without a heap.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Final

# Keeps the floors of the even share from exceeding the total by a rounding error.
_BELOW: Final = 1.0 - 1e-9


def divide(total: int, seconds: Sequence[float]) -> list[int]:
    """Return how many units each rank takes, so that the last rank ends as early as possible.

    Ranks that would end at the same time get units in the order of the sequence. So every caller with
    the same arguments gets the same counts.

    Args:
        total: number of units, at least 0.
        seconds: time of one unit on each rank, in seconds or any other unit; positive and finite.

    Returns:
        One count for each rank; their sum is `total`.

    Raises:
        ValueError: the total is negative, there is no rank, or a time is not positive and finite.

    Example:
        >>> from flodl.distributed import divide
        >>> divide(7, [0.010, 0.025])
        [5, 2]
        >>> divide(6, [1.0, 1.0, 1.0, 1.0])
        [2, 2, 1, 1]
    """
    require_positive(seconds, "seconds")
    if total < 0:
        raise ValueError(f"cannot divide {total} units: the total must be at least 0")
    even = total / math.fsum(1.0 / one for one in seconds) * _BELOW
    counts = [int(even / one) for one in seconds]
    left = total - sum(counts)
    if left:
        ends = [
            ((count + 1) * one, rank)
            for rank, (count, one) in enumerate(zip(counts, seconds, strict=True))
        ]
        heapq.heapify(ends)
        for _ in range(left):
            rank = ends[0][1]
            counts[rank] += 1
            heapq.heapreplace(ends, ((counts[rank] + 1) * seconds[rank], rank))
    return counts


def require_positive(values: Sequence[float], what: str) -> None:
    """Raise a ValueError unless there are values, all of them positive and finite."""
    if not values:
        raise ValueError(f"`{what}` is empty: give one number for each rank")
    for rank, value in enumerate(values):
        if not 0.0 < value < math.inf:
            raise ValueError(f"{what}[{rank}] is {value}; it must be positive and finite")
