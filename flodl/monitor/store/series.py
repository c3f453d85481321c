"""One series of numbers in bounded memory: when it is full, neighbours become one bucket."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import torch

if TYPE_CHECKING:
    from torch import Tensor

# Twenty series of any length take 50 MiB.
CAPACITY: Final = 1 << 16
_STEP, _TIME, _MEAN, _LOW, _HIGH = range(5)
_SETTLE_AT: Final = 4096


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """The data of a chart: per bucket its first step and time, and the mean, lowest and highest value.

    Attributes:
        steps: first step of each bucket.
        times: when it was recorded, in seconds since 1970.
        mean: the mean of its finite values, NaN where there is none.
        low: its lowest finite value.
        high: its highest finite value.
        per: how many points one bucket holds; 1 means that nothing was summed up.
    """

    steps: tuple[float, ...]
    times: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    per: int


@final
class Series:
    """Numbers by step, of which any stretch can be had at any resolution.

    Example:
        >>> from array import array
        >>> from flodl.monitor.store.series import Series
        >>> series = Series()
        >>> steps = array("d", range(1000))
        >>> series.extend(steps, steps, steps)
        >>> series.window(points=4).high
        (249.0, 499.0, 749.0, 999.0)
    """

    def __init__(self) -> None:
        self.count = 0
        self.last_step = -math.inf
        self._sorted = True
        self._per = 1
        self._used = 0
        self._table = torch.empty((5, 0), dtype=torch.float64, device="cpu")
        self._tail = (array("d"), array("d"), array("d"))

    @property
    def points_per_bucket(self) -> int:
        """The number of points in one bucket by now."""
        return self._per

    def extend(self, steps: array[float], times: array[float], values: array[float]) -> None:
        """Add points; they need not be in order."""
        if not steps:
            return
        if steps[0] < self.last_step:
            self._sorted = False
        self.last_step = max(self.last_step, steps[-1])
        for tail, new in zip(self._tail, (steps, times, values), strict=True):
            tail.extend(new)
        self.count += len(steps)
        if len(self._tail[0]) >= _SETTLE_AT:
            self._settle()

    def truncate(self, step: float) -> int:
        """Forget the points from a step on, which are about to be recorded again; return how many."""
        self._settle(final=True)
        kept = self._table[:, : self._used]
        stay = kept[_STEP] < step
        left = int(stay.sum())
        forgotten = self._used - left
        if forgotten:
            self._table[:, :left] = kept[:, stay]
            self._used = left
            self.last_step = float(self._table[_STEP, :left].max()) if left else -math.inf
            self.count = left * self._per
        return forgotten * self._per

    def window(
        self, start: float = -math.inf, stop: float = math.inf, points: int = 2000
    ) -> Buckets:
        """Return the points between two steps, and one neighbour on each side, in few buckets.

        Args:
            start: the first step.
            stop: the last step.
            points: the most buckets.
        """
        table = torch.cat(
            (self._table[:, : self._used], self._tail_table(len(self._tail[0]))), dim=1
        )
        if not self._sorted:
            table = table[:, torch.argsort(table[_STEP], stable=True)]
        edges = torch.tensor((start, stop), dtype=torch.float64, device="cpu")
        first = int(torch.searchsorted(table[_STEP].contiguous(), edges[0]))
        last = int(torch.searchsorted(table[_STEP].contiguous(), edges[1], right=True))
        part = table[:, max(first - 1, 0) : last + 1]
        per = max(1, math.ceil(part.shape[1] / max(points, 1)))
        return _buckets(_grouped(part, per), per * self._per)

    def _settle(self, *, final: bool = False) -> None:
        """Move the tail into the table; a bucket that is not full waits, unless all is wanted."""
        steps = self._tail[0]
        whole = len(steps) if final else len(steps) // self._per * self._per
        if not whole:
            return
        fresh = self._tail_table(whole)
        left = tuple(tail[whole:] for tail in self._tail)
        self._tail = (left[0], left[1], left[2])
        while self._used + fresh.shape[1] > CAPACITY:
            room = _grouped(torch.cat((self._table[:, : self._used], fresh), dim=1), 2)
            self._per *= 2
            self._used, fresh = 0, room
        self._reserve(self._used + fresh.shape[1])
        self._table[:, self._used : self._used + fresh.shape[1]] = fresh
        self._used += fresh.shape[1]

    def _tail_table(self, length: int) -> Tensor:
        """Return the first points of the tail as columns of the table."""
        if not length:
            return self._table[:, :0]
        raw = torch.stack(
            [torch.frombuffer(tail, dtype=torch.float64)[:length] for tail in self._tail]
        )
        if bool((raw[0, 1:] < raw[0, :-1]).any()):
            self._sorted = False
        values = torch.where(torch.isfinite(raw[2]), raw[2], torch.nan)
        return _grouped(torch.stack((raw[0], raw[1], values, values, values)), self._per)

    def _reserve(self, needed: int) -> None:
        size = self._table.shape[1]
        if needed <= size:
            return
        bigger = torch.empty(
            (5, min(CAPACITY, max(1024, 2 * size, needed))), dtype=torch.float64, device="cpu"
        )
        bigger[:, : self._used] = self._table[:, : self._used]
        self._table = bigger


def _grouped(table: Tensor, per: int) -> Tensor:
    """Sum up every `per` columns; the last group may be smaller."""
    if per == 1 or not table.shape[1]:
        return table
    whole = table.shape[1] // per * per
    parts = [table[:, :whole].reshape(5, -1, per)]
    if whole < table.shape[1]:
        parts.append(table[:, whole:].reshape(5, 1, -1))
    return torch.cat([_summed(part) for part in parts if part.numel()], dim=1)


def _summed(groups: Tensor) -> Tensor:
    low = torch.where(groups[_LOW].isnan(), torch.inf, groups[_LOW]).amin(-1)
    high = torch.where(groups[_HIGH].isnan(), -torch.inf, groups[_HIGH]).amax(-1)
    return torch.stack(
        (
            groups[_STEP, :, 0],
            groups[_TIME, :, 0],
            groups[_MEAN].nanmean(-1),
            torch.where(low.isinf(), torch.nan, low),
            torch.where(high.isinf(), torch.nan, high),
        )
    )


def _buckets(table: Tensor, per: int) -> Buckets:
    steps, times, mean, low, high = (tuple(row) for row in table.tolist())
    return Buckets(steps=steps, times=times, mean=mean, low=low, high=high, per=per)
