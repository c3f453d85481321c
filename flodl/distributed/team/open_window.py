"""The window that is under way in policy Sync: who holds which units, and who trains what next.

Example: 4 units on two ranks of equal speed; rank 1 dies in round 0.

    round 0   rank 0 trains units 0 and 1, rank 1 trains units 2 and 3
    rows      of rank 0 alone: it holds units 0 and 1, and 2 and 3 are missing
    round 1   rank 0 trains units 2 and 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from flodl.distributed.control import ControlRow
from flodl.distributed.partition import divide
from flodl.distributed.unit_ledger import (
    Units,
    count_units,
    cut_units,
    merge_units,
    missing_units,
)


@final
@dataclass(slots=True)
class OpenWindow:
    """The rounds of one window: who holds which units, and who trains what next.

    Attributes:
        count: units of the window.
        members: the ranks of its first round.
        paces: time of a unit on each rank, in any scale.
        assigned: the units that each rank trains in the open round; `None` when no unit is missing.
        held: the units of each rank that is alive, of the rounds that are closed.
        history: the rows of the closed rounds.
        done: units that this rank trained in the open round.
        busy: seconds that they took.
        sync: seconds of the sum before.
        is_trained: whether this rank is through with the open round.
    """

    count: int
    members: tuple[int, ...]
    paces: Mapping[int, float]
    assigned: dict[int, list[Units]] | None = None
    held: dict[int, list[Units]] = field(default_factory=dict)
    history: list[list[ControlRow]] = field(default_factory=list)
    done: int = 0
    busy: float = 0.0
    sync: float | None = None
    is_trained: bool = False

    def __post_init__(self) -> None:
        if self.count:
            self._assign([(0, self.count)], self.members)

    @property
    def round(self) -> int:
        """Number of rounds that are closed."""
        return len(self.history)

    def row(self, rank: int, window: int, fingerprint: int) -> ControlRow:
        """Return what this rank reports of the open round."""
        return ControlRow(
            rank=rank,
            window=window,
            round=self.round,
            done=self.done,
            busy=self.busy,
            sync=self.sync,
            crc=fingerprint,
        )

    def close_round(self, rows: Sequence[ControlRow]) -> None:
        """Take the rows of a round; units of ranks that are dead are assigned again."""
        alive = tuple(row.rank for row in rows)
        assigned = self.assigned or {}
        self.held = {
            rank: merge_units([*self.held.get(rank, []), *assigned.get(rank, [])])
            for rank in alive
        }
        self.history.append(list(rows))
        self.done, self.busy, self.is_trained = 0, 0.0, False
        held = merge_units(part for parts in self.held.values() for part in parts)
        self._assign(missing_units(0, self.count, held), alive)

    def busy_of(self) -> dict[int, float]:
        """Return the seconds of each rank, over all rounds."""
        found: dict[int, float] = {}
        for rows in self.history:
            for row in rows:
                found[row.rank] = found.get(row.rank, 0.0) + row.busy
        return found

    def numbers(self) -> list[list[list[float]]]:
        """Return the history as plain numbers."""
        return plain_rows(self.history)

    def _assign(self, units: Sequence[Units], members: Sequence[int]) -> None:
        self.assigned = None
        if units:
            counts = divide(count_units(units), [self.paces[rank] for rank in members])
            self.assigned = dict(zip(members, cut_units(units, counts), strict=True))


def plain_rows(history: Sequence[Sequence[ControlRow]]) -> list[list[list[float]]]:
    """Return the rows of rounds as plain numbers."""
    return [[row.to_numbers() for row in rows] for rows in history]
