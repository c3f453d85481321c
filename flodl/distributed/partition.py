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
from bisect import bisect_right
from collections.abc import Sequence


def divide(total: int, seconds: Sequence[float], max_diff: int | None = None) -> list[int]:
    """Return how many units each rank takes, so that the last rank ends as early as possible.

    Ranks that would end at the same time get units in the order of the sequence. So every caller with
    the same arguments gets the same counts.

    Args:
        total: number of units, at least 0.
        seconds: time of one unit on each rank, in seconds or any other unit; positive and finite.
        max_diff: most units by which one rank may exceed another, at least 1. Counts beyond that
            bound are clamped to a band of this width.

    Returns:
        One count for each rank; their sum is `total`.

    Raises:
        ValueError: the total is negative, there is no rank, a time is not positive and finite, or
            `max_diff` is below 1.

    Example:
        >>> from flodl.distributed import divide
        >>> divide(7, [0.010, 0.025])
        [5, 2]
        >>> divide(6, [1.0, 1.0, 1.0, 1.0])
        [2, 2, 1, 1]
        >>> divide(12, [0.010, 0.100], max_diff=4)
        [8, 4]
    """
    require_positive(seconds, "seconds")
    if total < 0:
        raise ValueError(f"cannot divide {total} units: the total must be at least 0")
    if max_diff is not None and max_diff < 1:
        raise ValueError(
            f"max_diff is {max_diff}; totals that no equal counts give need at least 1"
        )
    even = total / math.fsum(1.0 / one for one in seconds)
    counts = [int(even / one) for one in seconds]
    _take_back(sum(counts) - total, counts, seconds, 0)  # only after a rounding error
    _hand_out(total - sum(counts), counts, seconds, total)
    if max_diff is None or max(counts) - min(counts) <= max_diff:
        return counts
    # Counts are clamped to a band of `max_diff` units that can hold the total: the one nearest to them.
    band = bisect_right(
        range(max(counts) + 1), total, key=lambda low: sum(_clamped(counts, low, max_diff))
    )
    ranks = len(counts)
    lowest = min(max(band - 1, -(-total // ranks) - max_diff), total // ranks)
    counts = _clamped(counts, lowest, max_diff)
    _take_back(sum(counts) - total, counts, seconds, lowest)
    _hand_out(total - sum(counts), counts, seconds, lowest + max_diff)
    return counts


def _hand_out(units: int, counts: list[int], seconds: Sequence[float], most: int) -> None:
    """Add units to counts below `most`, each where it ends first."""
    if units <= 0:
        return
    ends = [
        ((count + 1) * one, rank)
        for rank, (count, one) in enumerate(zip(counts, seconds, strict=True))
        if count < most
    ]
    heapq.heapify(ends)
    for _ in range(units):
        rank = ends[0][1]
        counts[rank] += 1
        if counts[rank] < most:
            heapq.heapreplace(ends, ((counts[rank] + 1) * seconds[rank], rank))
        else:
            heapq.heappop(ends)


def _take_back(units: int, counts: list[int], seconds: Sequence[float], least: int) -> None:
    """Remove units from counts above `least`, each where the last one ends latest."""
    if units <= 0:
        return
    ends = [
        (-count * one, -rank)
        for rank, (count, one) in enumerate(zip(counts, seconds, strict=True))
        if count > least
    ]
    heapq.heapify(ends)
    for _ in range(units):
        rank = -ends[0][1]
        counts[rank] -= 1
        if counts[rank] > least:
            heapq.heapreplace(ends, (-counts[rank] * seconds[rank], -rank))
        else:
            heapq.heappop(ends)


def _clamped(counts: list[int], lowest: int, width: int) -> list[int]:
    return [min(max(count, lowest), lowest + width) for count in counts]


def require_positive(values: Sequence[float], what: str) -> None:
    """Raise a ValueError unless there are values, all of them positive and finite."""
    if not values:
        raise ValueError(f"`{what}` is empty: give one number for each rank")
    for rank, value in enumerate(values):
        if not 0.0 < value < math.inf:
            raise ValueError(f"{what}[{rank}] is {value}; it must be positive and finite")
