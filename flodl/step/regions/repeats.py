"""Repeats in a list of numbers.

Example:
    >>> find_repeats([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8], least_saved=4)
    [Repeat(start=1, period=3, slack=0, count=3)]

    The runs of a period p are where the number at i is that at i + p: here 6 in a row, from i = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST_COUNT = 3


@final
@dataclass(frozen=True, slots=True)
class Repeat:
    """`count` copies of `period` numbers from `start` on; they may begin up to `slack` later."""

    start: int
    period: int
    slack: int
    count: int

    @property
    def saved(self) -> int:
        """The numbers that are copies of earlier ones."""
        return (self.count - 1) * self.period

    @property
    def end(self) -> int:
        """The position after the last copy, where they begin as late as they may."""
        return self.start + self.slack + self.count * self.period


def find_repeats(numbers: Sequence[int], least_saved: int) -> list[Repeat]:
    """Return repeats that do not overlap, each with three copies or more, in their order.

    The repeat that saves most is taken first, then those on both sides of it. One that saves less than
    `least_saved` numbers is left.
    """
    tokens = torch.tensor(numbers, dtype=torch.int64)
    found: list[Repeat] = []
    todo = [(0, len(numbers))]
    while todo:
        begin, end = todo.pop()
        best = _best(tokens[begin:end], begin)
        if best is None or best.saved < least_saved:
            continue
        found.append(best)
        todo += [(begin, best.start), (best.end, end)]
    return sorted(found, key=lambda each: each.start)


def _best(tokens: torch.Tensor, begin: int) -> Repeat | None:
    """Return the repeat of a stretch that saves most; of several, that with the shortest period."""
    size = len(tokens)
    best: Repeat | None = None
    for period in range(1, size // _LEAST_COUNT + 1):
        if best is not None and size - period <= best.saved:
            break  # even a run to the end saves no more
        start, length = _longest_run(tokens[:-period] == tokens[period:])
        count = length // period + 1
        if count < _LEAST_COUNT or (best is not None and (count - 1) * period <= best.saved):
            continue
        best = Repeat(begin + start, period, length % period, count)
    return best


def _longest_run(same: torch.Tensor) -> tuple[int, int]:
    """Return start and length of the longest run of True."""
    ends = torch.cat([torch.tensor([-1]), (~same).nonzero().flatten(), torch.tensor([len(same)])])
    gaps = ends.diff() - 1
    widest = int(gaps.argmax())
    return int(ends[widest]) + 1, int(gaps[widest])
