"""Messages of a window: the row that every rank reports at its end, and the plan of the next one.

Example: two ranks end window 7, and gather these rows (most fields left out):

    ControlRow(rank=0, window=7, done=10, busy=.101, ...)
    ControlRow(rank=1, window=7, done=4, busy=.099, ...)

A gathered row is a list of float64 numbers (`to_numbers`), so that one small all-gather carries arrival,
news, and the check that the ranks still agree. Every rank computes the plan from the same rows:

    WindowPlan(window=8, members=(0, 1), counts=(10, 4), seconds=.1, pace=(.01, .025), units=...)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, Self, final

from flodl.distributed.unit_ledger import Units

# Lengths of windows are products, and times are sums: a unit that fills a window exactly still fits.
_ROUNDING: Final = 1.0 + 1e-6
# Wishes of a row.
STOP: Final = 1
SAVE: Final = 2
JOIN: Final = 4
ASK: Final = 8


@final
class ApplyPolicy(StrEnum):
    """How the work of several ranks becomes one model.

    `SYNC` sums the gradients of an exact number of units over all ranks, so that the numbers do not
    depend on the ranks. `CADENCE` lets ranks train alone for a window of time, and averages. `ASYNC`
    averages too, while the next window already runs.

    Example:
        >>> from flodl.distributed import ApplyPolicy
        >>> ApplyPolicy("cadence") is ApplyPolicy.Cadence
        True
    """

    SYNC = "sync"
    CADENCE = "cadence"
    ASYNC = "async"
    # The names of the Rust framework: aliases of the same members.
    Sync = "sync"
    Cadence = "cadence"
    Async = "async"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRow:
    """What one rank reports at the end of a window.

    Attributes:
        rank: the id of the rank, which it keeps for life.
        window: the window that ended.
        round: the round of that window: 0, or higher where missing units were made up.
        done: units that the rank completed, the first ones of its part of the plan.
        busy: seconds of training, without waiting.
        data_wait: seconds of waiting for data.
        sync: seconds of the rank's last averaging; `None` if there was none.
        drift: relative distance of its weights from the mean of the last averaging.
        loss: mean loss of the completed units; `None` if unknown.
        crc: checksum of the state that all ranks must share, below 2**53.
        wish: a request to all ranks at the end of this window: the sum of 1 to stop, 2 to save, 4 to let
            ranks join, and 8 to do what the store has requests for.
        asked: requests in the store that the rank knows of.

    Example:
        >>> from flodl.distributed import ControlRow
        >>> row = ControlRow(rank=1, window=7, done=4, busy=0.099)
        >>> ControlRow.from_numbers(row.to_numbers()) == row
        True
    """

    rank: int
    window: int
    round: int = 0
    done: int
    busy: float
    data_wait: float = 0.0
    sync: float | None = None
    drift: float = 0.0
    loss: float | None = None
    crc: int = 0
    wish: int = 0
    asked: int = 0

    def to_numbers(self) -> list[float]:
        """Return the row as 12 numbers that float64 holds exactly; `nan` means `None`."""
        values = (
            self.rank, self.window, self.round, self.done, self.busy, self.data_wait, self.sync,
            self.drift, self.loss, self.crc, self.wish, self.asked,
        )  # fmt: skip
        return [math.nan if value is None else float(value) for value in values]

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> Self:
        """Return the row that `to_numbers` wrote.

        Raises:
            ValueError: there are not 12 numbers.
        """
        if len(numbers) != len(fields(cls)):
            raise ValueError(
                f"a control row has {len(fields(cls))} numbers, not {len(numbers)}: "
                "the ranks run different versions of flodl"
            )
        rank, window, turn, done, busy, data_wait, sync, drift, loss, crc, wish, asked = numbers
        return cls(
            rank=int(rank),
            window=int(window),
            round=int(turn),
            done=int(done),
            busy=busy,
            data_wait=data_wait,
            sync=None if math.isnan(sync) else sync,
            drift=drift,
            loss=None if math.isnan(loss) else loss,
            crc=int(crc),
            wish=int(wish),
            asked=int(asked),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan:
    """What every rank does in one window.

    Attributes:
        window: number of the window, from 0.
        round: 0, or higher where units of the window that are missing are made up.
        members: the ranks that train, ascending.
        counts: units that each member is expected to complete.
        seconds: length of the window; `None` if each member trains exactly its count.
        pace: seconds of one unit on each member, as estimated; of any scale before the first report.
        grace: seconds by which a unit may end after the window: half the time in which all members
            together train one. A later end would cost the others more than the unit is worth.
        units: ranges of units for each member, in the order in which it trains them. A window of
            seconds lists more than the count, for a rank that is faster than expected.

    Example:
        >>> from flodl.distributed import WindowPlan
        >>> plan = WindowPlan(
        ...     window=8, round=0, members=(0, 1), counts=(10, 4), seconds=0.1,
        ...     pace=(0.01, 0.025), grace=0.0036, units=(((0, 70),), ((70, 100),)),
        ... )
        >>> plan.has_time(1, 3, elapsed=0.078), plan.has_time(1, 3, elapsed=0.079)
        (True, False)
    """

    window: int
    round: int
    members: tuple[int, ...]
    counts: tuple[int, ...]
    seconds: float | None
    pace: tuple[float, ...]
    grace: float
    units: tuple[tuple[Units, ...], ...]

    def has_time(
        self, position: int, done: int, elapsed: float, pace: float | None = None
    ) -> bool:
        """Return True if a rank trains one more unit of the units that the plan gives it.

        Args:
            position: position of the rank among the members.
            done: units that it completed in this window.
            elapsed: seconds since the window began, for all ranks.
            pace: seconds of a unit, where the rank knows better than the plan.
        """
        if self.seconds is None:
            return done < self.counts[position]
        if done == 0:
            # A rank that is slower than the whole window trains a unit, or it would not be measured. A
            # rank that comes when an overlapped window has ended leaves the window out.
            return elapsed < self.seconds
        return elapsed + (pace or self.pace[position]) <= self.seconds * _ROUNDING + self.grace
