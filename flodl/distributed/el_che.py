"""The cadence of averaging: how many units each rank trains before the ranks average their weights.

Example: two ranks, the second 2.5 times as slow, one averaging takes 2 ms.

    report(done=[1, 1], busy=[.010, .025], sync=.002)
        speeds    10 ms and 25 ms for a unit
        goal      97 % of the units that the ranks could train if none ever waited
        anchor    4: the slower rank trains 4 units between two averagings (98.0 %)
        counts    [10, 4]; both need 100 ms, so that no rank waits for the other

    report(done=[10, 4], busy=[.100, .200], sync=.002)     the second rank needs twice the time
        speeds    m = 50 ms, error e = |50 - 25| / 25 = 1, filtered by .8: 45 ms
        anchor    4 again; the counts follow: [18, 4]

Every rank feeds the same numbers to its own `ElChe` and gets the same counts, so no coordinator decides.
Nothing here knows devices, processes or tensors: the arithmetic is tested with thousands of ranks that
do not exist.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Self, final

from flodl.distributed.partition import require_positive
from flodl.distributed.window_shapes import WindowShapes

_VERSION: Final = 1
_SLOWEST_FILTER: Final = 0.1
_FASTEST_FILTER: Final = 0.8
_SYNC_FILTER: Final = 0.3
# An anchor shrinks when so many windows in succession want at most this part of it.
_AGREEING: Final = 3
_SHRUNK: Final = 0.8
# Counts change when that gains so much efficiency, or moves the total by so much.
_GAIN: Final = 0.005
_MOVED: Final = 0.10


@final
class ElChe:
    """Choice of the units that each rank trains between two averagings, from measured times.

    The slowest rank sets the pace of a window; faster ranks train more units in the same time. The
    *anchor* is the number of units of the slowest rank. It is the smallest one at which rounding and
    averaging cost at most `overhead_target`. An anchor grows at once, and shrinks after three windows
    that agree.

    Args:
        max_anchor: most units of the slowest rank in one window.
        overhead_target: part of the possible units that may be lost, between 0 and 1.
        max_window: most seconds of a window. A rank that needs longer for one unit still trains one.

    Attributes:
        max_anchor: most units of the slowest rank in one window.
        overhead_target: part of the possible units that may be lost.
        max_window: most seconds of a window.

    Raises:
        ValueError: a setting is out of range.

    Example:
        >>> from flodl.distributed import ElChe
        >>> el_che = ElChe()
        >>> el_che.plan(range(2))
        [1, 1]
        >>> el_che.report(done=[1, 1], busy=[0.010, 0.025], sync=0.002)
        [10, 4]
        >>> el_che.anchor, round(el_che.window, 3), round(el_che.efficiency(), 3)
        (4, 0.1, 0.98)
    """

    __slots__ = (
        "_anchor", "_counts", "_hints", "_max_diff", "_members", "_seconds", "_shape_cache", "_shares",
        "_smaller", "_sync", "max_anchor", "max_window", "overhead_target",
    )  # fmt: skip

    def __init__(
        self, max_anchor: int = 200, overhead_target: float = 0.03, max_window: float = 30.0
    ) -> None:
        if max_anchor < 1:
            raise ValueError(f"max_anchor is {max_anchor}; a window needs at least 1 unit")
        if not 0.0 < overhead_target < 1.0:
            raise ValueError(f"overhead_target is {overhead_target}; it must be between 0 and 1")
        if not 0.0 < max_window < math.inf:
            raise ValueError(f"max_window is {max_window}; give a positive number of seconds")
        self.max_anchor = max_anchor
        self.overhead_target = overhead_target
        self.max_window = max_window
        self._anchor = 1
        self._seconds: dict[int, float] = {}
        self._sync: float | None = None
        self._members: tuple[int, ...] = ()
        self._counts: tuple[int, ...] = ()
        self._smaller: tuple[int, ...] = ()
        self._hints: dict[int, float] = {}
        self._shares: tuple[float, ...] = ()
        self._max_diff: int | None = None
        self._shape_cache: WindowShapes | None = None

    def speed_hint(self, rank: int, ratio: float) -> Self:
        """Say how much slower a rank is than a rank without a hint; the first window uses it.

        From its first report on, a rank is known by its measured time alone.

        Args:
            rank: the rank, from 0.
            ratio: time of a unit on this rank, in units of a rank without a hint; positive.

        Raises:
            ValueError: the rank is negative, or the ratio is not positive and finite.

        Example:
            >>> from flodl.distributed import ElChe
            >>> ElChe().speed_hint(1, 2.5).plan(range(2))
            [2, 1]
        """
        if rank < 0:
            raise ValueError(f"there is no rank {rank}: ranks count from 0")
        if not 0.0 < ratio < math.inf:
            raise ValueError(
                f"the ratio of rank {rank} is {ratio}; it must be positive and finite"
            )
        self._hints[rank] = ratio
        self._forget_counts()
        return self

    def partition(self, shares: Sequence[float]) -> Self:
        """Fix the relative counts of the ranks; only the length of the window is then chosen.

        Args:
            shares: one positive number for each rank, from rank 0; the sum does not matter. A rank
                beyond them gets their mean.

        Raises:
            ValueError: there is no share, or one is not positive and finite.

        Example:
            >>> from flodl.distributed import ElChe
            >>> ElChe().partition([3, 1]).plan(range(2))
            [3, 1]
        """
        require_positive(shares, "shares")
        self._shares = tuple(float(share) for share in shares)
        self._forget_counts()
        return self

    def max_batch_diff(self, units: int) -> Self:
        """Bound the units by which one rank may exceed another within a window.

        Args:
            units: the largest difference between two counts; 0 gives all ranks the same count.

        Raises:
            ValueError: the number is negative.

        Example:
            >>> from flodl.distributed import ElChe
            >>> el_che = ElChe().max_batch_diff(3)
            >>> counts = el_che.report(done=[1, 1], busy=[0.010, 0.100], sync=0.002)
            >>> counts[0] - counts[1]
            3
        """
        if units < 0:
            raise ValueError(f"max_batch_diff is {units}; it must be at least 0")
        self._max_diff = units
        self._forget_counts()
        return self

    @property
    def anchor(self) -> int:
        """Number of units of the slowest rank in one window; 1 before the first report."""
        return self._anchor

    @property
    def window(self) -> float:
        """Seconds of one window without the averaging; 0.0 before the first report."""
        return self._anchor * self._shapes().length if self._seconds else 0.0

    @property
    def sync(self) -> float:
        """Seconds of one averaging, filtered; 0.0 before the first one was measured."""
        return self._sync or 0.0

    @property
    def difference(self) -> int | None:
        """Most units by which one rank may exceed another, if `max_batch_diff` bounds it."""
        return self._max_diff

    @property
    def is_by_count(self) -> bool:
        """True if windows end by counts alone: shares or a difference are fixed, or no time is known."""
        return bool(self._shares) or self._max_diff is not None or not self._seconds

    def efficiency(self) -> float:
        """Return the expected share of the possible units, from 0 to 1; 0.0 before the first report."""
        if not self._seconds:
            return 0.0
        shapes = self._shapes()
        counts = self._counts or shapes.counts(self._anchor)
        return shapes.efficiency_of(counts, self.seconds(self._members))

    def seconds(self, members: Sequence[int]) -> list[float]:
        """Return the time of a unit on each rank, filtered.

        A rank without a measurement counts as slow as the slowest one, times the ratio of its hint.
        Before the first report the times are those of the hints, and 1.0 without one.
        """
        hints, known = self._hints, self._seconds
        if all(map(known.__contains__, members)):  # the usual case, in every window
            return list(map(known.__getitem__, members))
        scale = max((time / hints.get(rank, 1.0) for rank, time in known.items()), default=1.0)
        return [known[rank] if rank in known else scale * hints.get(rank, 1.0) for rank in members]

    def weights(self, members: Sequence[int]) -> list[float]:
        """Return relative times by which units are divided: measured ones, or those of a partition."""
        if not self._shares:
            return self.seconds(members)
        return [1.0 / share for share in self._shares_of(members)]

    def plan(self, members: Sequence[int]) -> list[int]:
        """Return the units of each rank in the next window, without a report.

        Args:
            members: the ranks that train, such as `range(4)`.

        Raises:
            ValueError: there is no rank, or one occurs twice.
        """
        self._set_members(members)
        if not self._counts:
            self._counts = tuple(self._shapes().counts(self._anchor))
        return list(self._counts)

    def report(
        self,
        done: Sequence[int],
        busy: Sequence[float],
        sync: float | None,
        *,
        members: Sequence[int] | None = None,
        cut: Collection[int] = (),
        hold_growth: bool = False,
    ) -> list[int]:
        """Learn from one window, and return the units of each rank in the next.

        Args:
            done: units that each rank trained.
            busy: seconds of training of each rank, without waiting for data or for other ranks.
            sync: seconds of the averaging: the least over ranks of its end minus its start, because the
                rank that arrives last waits for no other. `None` if nothing was averaged.
            members: the ranks that the sequences describe; all ranks from 0 if left out. Ranks that are
                not in it are forgotten.
            cut: ranks that the end of the window cut off, or that ended long after it. Their new time
                counts in full.
            hold_growth: keep the anchor from growing.

        Returns:
            One count for each member, at least 1.

        Raises:
            ValueError: the sequences differ in length, or a number is negative or not finite.

        Example:
            >>> from flodl.distributed import ElChe
            >>> ElChe().report(done=[3, 2, 1], busy=[1.0, 1.0, 1.0], sync=0.05)
            [6, 4, 2]
        """
        ranks = range(len(done)) if members is None else members
        _check_report(ranks, done, busy, sync)
        self._set_members(ranks)
        self._measure(ranks, done, busy, cut)
        if sync is not None:
            old = self._sync
            self._sync = sync if old is None else old + _SYNC_FILTER * (sync - old)
        if self._seconds:
            shapes = self._shapes()
            self._move_anchor(shapes, hold_growth=hold_growth)
            self._move_counts(shapes)
        return self.plan(ranks)

    def halve(self) -> list[int]:
        """Halve the anchor, rounded up, and return the new counts of the ranks.

        Raises:
            ValueError: no ranks are known yet; call `plan` or `report` first.

        Example:
            >>> from flodl.distributed import ElChe
            >>> el_che = ElChe()
            >>> el_che.report(done=[1, 1], busy=[0.010, 0.025], sync=0.002)
            [10, 4]
            >>> el_che.halve()
            [5, 2]
        """
        if not self._members:
            raise ValueError(
                "no rank is known, so no counts can be halved; call `plan` or `report` first"
            )
        self._anchor = -(-self._anchor // 2)
        self._smaller = ()
        self._counts = ()
        return self.plan(self._members)

    def state_dict(self) -> dict[str, Any]:
        """Return what was learned, as plain numbers, lists and dicts that JSON keeps.

        The settings are not part of it: a resumed run may have other ones.
        """
        return {
            "version": _VERSION,
            "anchor": self._anchor,
            "sync": self._sync,
            "members": list(self._members),
            "counts": list(self._counts),
            "smaller": list(self._smaller),
            "seconds": [[rank, time] for rank, time in sorted(self._seconds.items())],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state_dict` returned.

        Raises:
            ValueError: another version of flodl wrote the state, or it lacks a key.

        Example:
            >>> from flodl.distributed import ElChe
            >>> first, second = ElChe(), ElChe()
            >>> counts = first.report(done=[1, 1], busy=[0.010, 0.025], sync=0.002)
            >>> second.load_state_dict(first.state_dict())
            >>> second.plan(range(2)) == counts
            True
        """
        if state.get("version") != _VERSION:
            raise ValueError(
                f"the state of El Che has version {state.get('version')}, this flodl reads {_VERSION}; "
                "resume with the flodl that wrote it, or start without the state"
            )
        missing = sorted(self.state_dict().keys() - state.keys())
        if missing:
            raise ValueError(f"the state of El Che lacks {', '.join(missing)}")
        anchor = int(state["anchor"])
        self._anchor = min(anchor, self.max_anchor)
        self._sync = None if state["sync"] is None else float(state["sync"])
        self._members = tuple(int(rank) for rank in state["members"])
        counts = state["counts"] if anchor <= self.max_anchor else ()
        self._counts = tuple(int(count) for count in counts)
        self._smaller = tuple(int(anchor) for anchor in state["smaller"])
        self._seconds = {int(rank): float(time) for rank, time in state["seconds"]}
        self._shape_cache = None

    def _set_members(self, members: Sequence[int]) -> None:
        ranks = tuple(members)
        if ranks == self._members and ranks:
            return
        if not ranks or len(set(ranks)) != len(ranks):
            raise ValueError(f"the ranks are {list(ranks)}: give at least one, and each one once")
        self._members = ranks
        self._forget_counts()
        known = self._seconds
        self._seconds = {rank: known[rank] for rank in ranks if rank in known}

    def _shares_of(self, members: Sequence[int]) -> list[float]:
        shares = self._shares
        mean = math.fsum(shares) / len(shares)
        return [shares[rank] if rank < len(shares) else mean for rank in members]

    def _shapes(self) -> WindowShapes:
        if self._shape_cache is None:
            shares = self._shares_of(self._members) if self._shares else None
            self._shape_cache = WindowShapes(
                self.seconds(self._members), self.sync, shares=shares, max_diff=self._max_diff
            )
        return self._shape_cache

    def _forget_counts(self) -> None:
        self._counts = ()
        self._shape_cache = None

    def _measure(
        self,
        ranks: Sequence[int],
        done: Sequence[int],
        busy: Sequence[float],
        cut: Collection[int],
    ) -> None:
        """Filter the time of a unit; a rank that completed none is at least as slow as it was busy."""
        known = self._seconds
        for rank, units, time in zip(ranks, done, busy, strict=True):
            if time <= 0.0:
                continue
            old = known.get(rank)
            new = time / units if units else max(time, old or 0.0)
            if old is None or not units or rank in cut:
                known[rank] = new
            else:
                alpha = abs(new - old) / old
                if alpha < _SLOWEST_FILTER:
                    alpha = _SLOWEST_FILTER
                elif alpha > _FASTEST_FILTER:
                    alpha = _FASTEST_FILTER
                known[rank] = old + alpha * (new - old)
        self._shape_cache = None

    def _move_anchor(self, shapes: WindowShapes, *, hold_growth: bool) -> None:
        limit = max(1, min(self.max_anchor, int(self.max_window / shapes.length)))
        wanted = shapes.choose(limit, 1.0 - self.overhead_target)
        self._anchor = min(self._anchor, limit)
        if wanted > self._anchor:
            self._smaller = ()
            if not hold_growth:
                self._anchor = wanted
        elif wanted <= _SHRUNK * self._anchor:
            self._smaller = (*self._smaller, wanted)
            if len(self._smaller) == _AGREEING:
                self._anchor = min(max(self._smaller), limit)
                self._smaller = ()
        else:
            self._smaller = ()

    def _move_counts(self, shapes: WindowShapes) -> None:
        """Take the counts of the anchor, unless the present ones are nearly as good."""
        new, old = shapes.counts(self._anchor), self._counts
        if old:
            seconds = self.seconds(self._members)
            gain = shapes.efficiency_of(new, seconds) - shapes.efficiency_of(old, seconds)
            moved = abs(sum(new) - sum(old)) / sum(old)
            busy = max(map(operator.mul, old, seconds))
            if gain < _GAIN and moved < _MOVED and busy <= max(self.max_window, *seconds):
                return
        self._counts = tuple(new)


def _check_report(
    ranks: Sequence[int], done: Sequence[int], busy: Sequence[float], sync: float | None
) -> None:
    if not len(ranks) == len(done) == len(busy):
        raise ValueError(
            f"the report has {len(ranks)} ranks, {len(done)} counts and {len(busy)} times; "
            "give one of each for every rank"
        )
    for rank, units, time in zip(ranks, done, busy, strict=True):
        if units < 0 or not 0.0 <= time < math.inf:
            raise ValueError(
                f"rank {rank} reports {units} units in {time} s; both must be at least 0, and finite"
            )
    if sync is not None and not 0.0 <= sync < math.inf:
        raise ValueError(f"the averaging took {sync} s; it must be at least 0, and finite")
