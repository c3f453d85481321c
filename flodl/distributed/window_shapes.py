"""Counts of units that fit into one window, for every length of the window.

Example: two ranks, 10 ms and 25 ms for a unit, and an averaging of 2 ms. An anchor A is the number of
units of the slower rank, so the window takes A * 25 ms.

    A   counts   busy    units possible in busy + 2 ms   efficiency
    1   2, 1     25 ms   3.78                            79.4 %
    2   5, 2     50 ms   7.28                            96.2 %
    4   10, 4    100 ms  14.28                           98.0 %

A larger anchor hides the averaging, and the rounding of the counts. So the shortest window that reaches
a goal is the one to take: weights are averaged as often as the goal allows.

Thousands of ranks are tried with hundreds of anchors. Therefore no count is computed while an anchor is
chosen: `floor(A * k)` summed over ranks is `A * floor(k)` plus the number of pairs (rank, j) with
`fraction(k) >= j / A`, and sorted fractions give that by one bisection for each j.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, final

# A count of 29.9999999996 is 30 units.
_ROUNDING: Final = 1e-9


@final
class WindowShapes:
    """The counts of every window of the same ranks.

    Attributes:
        length: seconds of one step of the anchor; a window takes `anchor * length` seconds.
        rate: units per second that all ranks together train when none of them waits.
    """

    __slots__ = (
        "_ceiling", "_fractions", "_ratios", "_relative", "_sync", "_whole", "length", "max_diff", "rate",
    )  # fmt: skip

    def __init__(
        self,
        seconds: Sequence[float],
        sync: float,
        *,
        shares: Sequence[float] | None = None,
        max_diff: int | None = None,
    ) -> None:
        """Take the time of a unit for each rank, and the cost of one averaging, in seconds.

        Args:
            seconds: positive times of a unit.
            sync: seconds of one averaging, at least 0.
            shares: relative counts that replace the shares by speed.
            max_diff: most units by which one rank may exceed another.
        """
        slowest = max(seconds)
        least = min(shares) if shares is not None else 0.0
        ratios = (
            [slowest / one for one in seconds]
            if shares is None
            else [share / least for share in shares]
        )
        self._sync = sync
        self.max_diff = max_diff
        self.rate = math.fsum([1.0 / one for one in seconds])
        self.length = slowest if shares is None else max(map(operator.mul, ratios, seconds))
        self._ratios = ratios
        self._relative = math.fsum(ratios)
        whole = [int(ratio + _ROUNDING) for ratio in ratios]
        self._whole = sum(whole)
        self._fractions = sorted(map(operator.sub, ratios, whole))
        self._ceiling = self._relative / (self.rate * self.length)

    def counts(self, anchor: int) -> list[int]:
        """Return the units of each rank in a window of an anchor; each rank has at least one."""
        counts = [int(anchor * ratio + _ROUNDING) for ratio in self._ratios]  # no ratio is below 1
        if self.max_diff is not None:
            most = min(counts) + self.max_diff
            counts = [min(count, most) for count in counts]
        return counts

    def total(self, anchor: int) -> int:
        """Return the sum of the counts."""
        ranks = len(self._ratios)
        if self.max_diff is not None or anchor > ranks:
            return sum(self.counts(anchor))
        fractions = self._fractions
        extra = 0
        for step in range(1, anchor + 1):
            found = ranks - bisect_left(fractions, (step - _ROUNDING) / anchor)
            if not found:
                break
            extra += found
        return anchor * self._whole + extra

    def efficiency(self, anchor: int) -> float:
        """Return the share of the possible units that a window of this anchor trains, from 0 to 1."""
        return self.total(anchor) / (self.rate * (anchor * self.length + self._sync))

    def efficiency_of(self, counts: Sequence[int], seconds: Sequence[float]) -> float:
        """Return the share of the possible units that a window with these counts trains."""
        busy: float = max(map(operator.mul, counts, seconds))
        return sum(counts) / (self.rate * (busy + self._sync))

    def choose(self, limit: int, goal: float) -> int:
        """Return the smallest anchor that reaches a goal, or the one that comes nearest to it.

        Fixed shares may make the goal impossible at any length; it counts relative to what they allow.

        Args:
            limit: largest anchor, at least 1.
            goal: wanted efficiency, from 0 to 1.
        """
        needed = goal * self._ceiling
        bounds = [self._bound(anchor) for anchor in range(1, limit + 1)]
        for anchor, bound in enumerate(bounds, 1):
            if bound >= needed and self.efficiency(anchor) >= needed:
                return anchor
        best, chosen = -1.0, 1
        # The largest bounds first: once a bound is below the best efficiency, no later anchor can win.
        for anchor in sorted(range(1, limit + 1), key=lambda each: (-bounds[each - 1], each)):
            if bounds[anchor - 1] < best:
                break
            found = self.efficiency(anchor)
            if found > best or (found == best and anchor < chosen):
                best, chosen = found, anchor
        return chosen

    def _bound(self, anchor: int) -> float:
        """Return an efficiency that an anchor cannot exceed, without a look at single ranks."""
        most = anchor * self._relative + _ROUNDING * len(self._ratios)
        if self.max_diff is not None:
            most = min(most, len(self._ratios) * (anchor + self.max_diff))
        return most / (self.rate * (anchor * self.length + self._sync))
