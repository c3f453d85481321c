"""Order within layers: sweeps that put every item near the middle of its neighbours, best one kept."""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = list[list[int]]
    Neighbours = dict[int, list[int]]

SWEEPS = 10
PATIENCE = 3


def ordered(
    rows: Sequence[Sequence[int]], steps: Sequence[tuple[int, int]]
) -> tuple[tuple[int, ...], ...]:
    """Return the rows reordered so that few steps cross.

    Args:
        rows: the items of each layer; their order is kept where nothing speaks against it.
        steps: pairs of items in adjacent layers.
    """
    above, below = _neighbours(steps)
    current = [list(row) for row in rows]
    best, fewest = [list(row) for row in current], crossings(current, below)
    waiting = 0
    for sweep in range(SWEEPS):
        if fewest == 0 or waiting > PATIENCE:
            break
        _sweep(current, above if sweep % 2 == 0 else below, downwards=sweep % 2 == 0)
        _swap_neighbours(current, above, below)
        count = crossings(current, below)
        waiting += 1
        if count < fewest:
            best, fewest, waiting = [list(row) for row in current], count, 0
    return tuple(map(tuple, best))


def crossings(rows: Sequence[Sequence[int]], below: Neighbours) -> int:
    """Count the pairs of steps that cross."""
    total = 0
    for row, following in itertools.pairwise(rows):
        if len(row) < 2 or len(following) < 2:
            continue
        at = {item: position for position, item in enumerate(following)}
        seen: list[int] = []
        for item in row:
            ends = sorted(at[each] for each in below.get(item, ()))
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _neighbours(steps: Sequence[tuple[int, int]]) -> tuple[Neighbours, Neighbours]:
    above: Neighbours = {}
    below: Neighbours = {}
    for one, two in steps:
        above.setdefault(two, []).append(one)
        below.setdefault(one, []).append(two)
    return above, below


def _sweep(rows: Rows, neighbours: Neighbours, *, downwards: bool) -> None:
    indices = range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1)
    for index in indices:
        row = rows[index]
        if len(row) < 2:
            continue
        fixed = rows[index - 1 if downwards else index + 1]
        at = {item: position for position, item in enumerate(fixed)}
        own = {item: position for position, item in enumerate(row)}
        scale = len(fixed) / len(row)
        wish = {}
        for item in row:
            places = [at[each] for each in neighbours.get(item, ())]
            wish[item] = sum(places) / len(places) if places else own[item] * scale
        row.sort(key=wish.__getitem__)


def _swap_neighbours(rows: Rows, above: Neighbours, below: Neighbours) -> None:
    """Exchange items side by side where that alone removes crossings."""
    for index, row in enumerate(rows):
        if len(row) < 2:
            continue
        upper = _positions(rows[index - 1]) if index else {}
        lower = _positions(rows[index + 1]) if index + 1 < len(rows) else {}
        ends = {
            item: (
                sorted(upper[each] for each in above.get(item, ())),
                sorted(lower[each] for each in below.get(item, ())),
            )
            for item in row
        }
        for left in range(len(row) - 1):
            one, two = ends[row[left]], ends[row[left + 1]]
            before = _between(one[0], two[0]) + _between(one[1], two[1])
            after = _between(two[0], one[0]) + _between(two[1], one[1])
            if after < before:
                row[left], row[left + 1] = row[left + 1], row[left]


def _positions(row: Sequence[int]) -> dict[int, int]:
    return {item: position for position, item in enumerate(row)}


def _between(left: Sequence[int], right: Sequence[int]) -> int:
    """Count the crossings between two items, the first one on the left; both lists are sorted."""
    total = at = 0
    for end in left:
        while at < len(right) and right[at] < end:
            at += 1
        total += at
    return total
