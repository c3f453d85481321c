"""Account of the units of an epoch that are part of the weights, kept as ranges.

A *unit* is one batch at a position of the epoch's order. Example: an epoch of 100 units on two ranks.

    commit([(0, 10), (60, 64)])     a window: rank 0 trained 10 units, rank 1 trained 4
    commit([(10, 22), (64, 69)])    the next one continues both ranges: still two ranges
    remaining()                     [(22, 60), (69, 100)]: what is divided if rank 1 dies now
    commit([(20, 23)])              refused: unit 20 is already in the weights

A range is a pair of its first unit and the one after its last. The cost of every operation depends on
the number of ranges, which is about that of the ranks, and not on the number of units.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

Units: TypeAlias = tuple[int, int]
_VERSION: Final = 1


def count_units(ranges: Iterable[Units]) -> int:
    """Return the number of units in ranges."""
    return sum(stop - start for start, stop in ranges)


def take_units(ranges: Sequence[Units], count: int) -> tuple[list[Units], list[Units]]:
    """Return the first `count` units of ranges, and the rest.

    Example:
        >>> take_units([(0, 3), (10, 20)], 5)
        ([(0, 3), (10, 12)], [(12, 20)])
    """
    taken: list[Units] = []
    for index, (start, stop) in enumerate(ranges):
        if count <= 0:
            return taken, list(ranges[index:])
        if stop - start > count:
            taken.append((start, start + count))
            return taken, [(start + count, stop), *ranges[index + 1 :]]
        taken.append((start, stop))
        count -= stop - start
    return taken, []


def cut_units(ranges: Iterable[Units], counts: Iterable[int]) -> list[list[Units]]:
    """Return consecutive pieces of ranges, one with each number of units.

    Example:
        >>> cut_units([(0, 3), (10, 20)], [2, 4])
        [[(0, 2)], [(2, 3), (10, 13)]]
    """
    source = iter(ranges)
    start = stop = 0
    pieces = []
    for count in counts:
        piece: list[Units] = []
        wanted = count
        while wanted > 0:
            if start == stop:
                start, stop = next(source)
            end = min(stop, start + wanted)
            piece.append((start, end))
            wanted -= end - start
            start = end
        pieces.append(piece)
    return pieces


def merge_units(ranges: Iterable[Units]) -> list[Units]:
    """Return sorted ranges of which no two touch.

    Raises:
        ValueError: a unit occurs twice; the message names the first such units.

    Example:
        >>> merge_units([(7, 9), (0, 4), (4, 5)])
        [(0, 5), (7, 9)]
    """
    merged: list[Units] = []
    first, last = 0, -1  # the range that grows; none yet
    for start, stop in sorted(ranges):
        if start == last:
            last = stop
        elif start > last:
            if last > first:
                merged.append((first, last))
            first, last = start, stop
        else:
            raise ValueError(f"{_named(start, min(stop, last))} occur twice")
    if last > first:
        merged.append((first, last))
    return merged


def missing_units(start: int, stop: int, ranges: Iterable[Units]) -> list[Units]:
    """Return the units from `start` up to `stop` that are not in sorted, separate ranges.

    Example:
        >>> missing_units(0, 10, [(2, 3), (8, 10)])
        [(0, 2), (3, 8)]
    """
    gaps = []
    for first, last in ranges:
        if first > start:
            gaps.append((start, first))
        start = last
    if start < stop:
        gaps.append((start, stop))
    return gaps


@final
class UnitLedger:
    """The committed units of one epoch; each unit is committed once.

    Args:
        total: number of units of the epoch, at least 0.

    Attributes:
        total: number of units of the epoch.

    Raises:
        ValueError: the total is negative.

    Example:
        >>> from flodl.distributed import UnitLedger
        >>> ledger = UnitLedger(100)
        >>> ledger.commit([(0, 10), (60, 64)])
        >>> ledger.commit([(10, 22), (64, 69)])
        >>> ledger.ranges, ledger.committed
        (((0, 22), (60, 69)), 31)
        >>> ledger.remaining()
        [(22, 60), (69, 100)]
    """

    __slots__ = ("_committed", "_ranges", "total")

    def __init__(self, total: int) -> None:
        if total < 0:
            raise ValueError(f"an epoch of {total} units is impossible; give at least 0")
        self.total = total
        self._ranges: list[Units] = []
        self._committed = 0

    def __repr__(self) -> str:
        return (
            f"UnitLedger({self.total}): {self._committed} committed in {len(self._ranges)} ranges"
        )

    def __contains__(self, unit: int) -> bool:
        index = bisect_right(self._ranges, (unit, self.total)) - 1
        return index >= 0 and unit < self._ranges[index][1]

    @property
    def ranges(self) -> tuple[Units, ...]:
        """The committed units, as sorted ranges of which no two touch."""
        return tuple(self._ranges)

    @property
    def committed(self) -> int:
        """Number of committed units."""
        return self._committed

    @property
    def left(self) -> int:
        """Number of units that are not committed."""
        return self.total - self._committed

    @property
    def is_complete(self) -> bool:
        """True if every unit is committed."""
        return self._committed == self.total

    def commit(self, ranges: Iterable[Units]) -> None:
        """Add the units of one window, all or none.

        Args:
            ranges: pairs of the first unit and the one after the last, in any order.

        Raises:
            ValueError: a unit is committed already, occurs twice, or is outside the epoch.

        Example:
            >>> from flodl.distributed import UnitLedger
            >>> ledger = UnitLedger(10)
            >>> ledger.commit([(0, 4)])
            >>> ledger.commit([(2, 6)])
            Traceback (most recent call last):
              ...
            ValueError: units 2 to 3 occur twice: each unit of an epoch is committed once
        """
        new = list(ranges)
        for start, stop in new:
            if not 0 <= start < stop <= self.total:
                raise ValueError(
                    f"there are no units from {start} up to {stop}: the epoch has {self.total} units"
                )
        try:
            self._ranges = merge_units([*self._ranges, *new])
        except ValueError as error:
            raise ValueError(f"{error}: each unit of an epoch is committed once") from None
        self._committed += count_units(new)

    def remaining(self) -> list[Units]:
        """Return the units that are not committed, as sorted ranges."""
        return missing_units(0, self.total, self._ranges)

    def union(self, other: UnitLedger) -> UnitLedger:
        """Return a ledger with the units of both.

        Raises:
            ValueError: the epochs differ in length, or a unit is in both.

        Example:
            >>> from flodl.distributed import UnitLedger
            >>> first, second = UnitLedger(10), UnitLedger(10)
            >>> first.commit([(0, 4)])
            >>> second.commit([(4, 6)])
            >>> first.union(second).ranges
            ((0, 6),)
        """
        if self.total != other.total:
            raise ValueError(
                f"ledgers of {self.total} and {other.total} units are of different epochs"
            )
        both = UnitLedger(self.total)
        both.commit([*self._ranges, *other._ranges])
        return both

    def state_dict(self) -> dict[str, Any]:
        """Return the ledger as plain numbers and lists that JSON keeps."""
        flat = [bound for units in self._ranges for bound in units]
        return {"version": _VERSION, "total": self.total, "ranges": flat}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state_dict` returned.

        Raises:
            ValueError: another version of flodl wrote the state, or its ranges are impossible.

        Example:
            >>> from flodl.distributed import UnitLedger
            >>> first, second = UnitLedger(10), UnitLedger(0)
            >>> first.commit([(0, 4)])
            >>> second.load_state_dict(first.state_dict())
            >>> second.ranges
            ((0, 4),)
        """
        if state.get("version") != _VERSION:
            raise ValueError(
                f"the ledger has version {state.get('version')}, this flodl reads {_VERSION}; "
                "resume with the flodl that wrote it"
            )
        read = UnitLedger(int(state["total"]))
        bounds = [int(bound) for bound in state["ranges"]]
        read.commit(list(zip(bounds[::2], bounds[1::2], strict=True)))
        self.total, self._ranges, self._committed = read.total, read._ranges, read._committed


def _named(start: int, stop: int) -> str:
    return f"units {start} to {stop - 1}"
