"""Repeated blocks: runs of equal steps in a graph, found without knowing what a block is.

Node i+p repeats node i when both do the same and each value that i+p reads is either the one that i
reads, from before the run, or lies p nodes later.  A run of such nodes, m*p long, is one block of p nodes
drawn once, "m+1 times".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

MOST_NODES = 200
FEWEST_COPIES = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node as folding sees it: its operation, its inputs, and whether it may be folded."""

    looks: Hashable
    reads: tuple[int, ...]
    may_fold: bool = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`copies` blocks of `period` nodes each, starting at node `start`; side by side unless `chained`."""

    start: int
    period: int
    copies: int
    chained: bool = True

    @property
    def stop(self) -> int:
        """The first node after the run."""
        return self.start + self.period * self.copies


def find_runs(steps: Sequence[Step]) -> tuple[Run, ...]:
    """Return disjoint runs, left to right; among those that start early, the one that covers most."""
    alike = _earlier_alike(steps)
    runs: list[Run] = []
    position = 0
    while position < len(steps):
        run = _best_run(steps, position, alike)
        if run is None:
            position += 1
        else:
            runs.append(run)
            position = run.stop
    return tuple(runs)


def _earlier_alike(steps: Sequence[Step]) -> dict[Hashable, tuple[int, ...]]:
    places: dict[Hashable, list[int]] = {}
    for index, step in enumerate(steps):
        places.setdefault(step.looks, []).append(index)
    return {looks: tuple(found) for looks, found in places.items()}


def _best_run(
    steps: Sequence[Step], start: int, alike: dict[Hashable, tuple[int, ...]]
) -> Run | None:
    best: Run | None = None
    for other in alike[steps[start].looks]:
        period = other - start
        if period < 1 or period > MOST_NODES:
            continue
        if best is not None and period >= best.stop - start:
            break
        length, chained = _matching(steps, start, period)
        copies = length // period + 1
        covered = copies * period
        # A longer period must cover clearly more: the shortest block is the one people know.
        if copies >= FEWEST_COPIES and (best is None or covered > 1.5 * (best.stop - best.start)):
            best = Run(start=start, period=period, copies=copies, chained=chained)
    return best


def _matching(steps: Sequence[Step], start: int, period: int) -> tuple[int, bool]:
    """Return how many nodes repeat the one a period before, and whether copies read earlier copies."""
    index = start
    moves: dict[int, tuple[bool, ...]] = {}
    chained = False
    while index + period < len(steps):
        found = _moves(steps, index, period, start)
        if found is None:
            break
        # Parts that moved from the first copy to the second must move on; the others must stay.
        if moves.setdefault((index - start) % period, found) != found:
            break
        copy = start + (index + period - start) // period * period
        chained = chained or any(
            moved and read < copy
            for moved, read in zip(found, steps[index + period].reads, strict=True)
        )
        index += 1
    return index - start, chained


def _moves(steps: Sequence[Step], index: int, period: int, start: int) -> tuple[bool, ...] | None:
    """Return for each value that a node reads whether its repetition reads a later one.

    `None` if the node is not repeated a period later.
    """
    one, two = steps[index], steps[index + period]
    same = one.may_fold and two.may_fold and one.looks == two.looks
    if not same or len(one.reads) != len(two.reads):
        return None
    moves: list[bool] = []
    for before, after in zip(one.reads, two.reads, strict=True):
        if after - before not in (0, period) or (after == before and before >= start):
            return None
        moves.append(after != before)
    return tuple(moves)
