"""Horizontal places: each item as near to its wish as its neighbours in the layer allow.

The wish of an item is the weighted mean of the items it is linked to above or below; the items of a
chain wish for one common centre.  Given the wishes of a layer, the nearest places without overlap are
an isotonic regression, solved exactly by pooling.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from flodl.visual.straightening import chains_of, snap

if TYPE_CHECKING:
    from collections.abc import Sequence

    Weights = dict[int, list[tuple[int, float]]]

ROUNDS = 6
STRAIGHT_ROUNDS = 4
BOX_GAP = 26.0
WAYPOINT_GAP = 14.0
RIGID = 40.0


@final
@dataclass(slots=True, kw_only=True)
class _Field:
    """Items in their layers, with what pulls them and how near they may come."""

    rows: tuple[tuple[int, ...], ...]
    offsets: tuple[tuple[float, ...], ...]
    above: Weights
    below: Weights
    count: int
    centre: dict[int, float] = field(default_factory=dict)
    target: dict[int, float] = field(default_factory=dict)


def place(
    rows: Sequence[Sequence[int]],
    steps: Sequence[tuple[int, int]],
    widths: Sequence[float],
    count: int,
) -> dict[int, float]:
    """Return the horizontal centre of every item; items of one layer never overlap.

    Args:
        rows: the items of each layer, left to right.
        steps: pairs of items in adjacent layers.
        widths: widths of the boxes; waypoints, which are `count` and above, have none.
        count: how many items are boxes.
    """
    above, below = _weights(steps, count)
    offsets = tuple(_offsets(row, widths, count) for row in rows)
    items = _Field(
        rows=tuple(map(tuple, rows)), offsets=offsets, above=above, below=below, count=count
    )
    for row, offset in zip(rows, offsets, strict=True):
        middle = (offset[-1] if offset else 0.0) / 2
        items.centre |= {item: at - middle for item, at in zip(row, offset, strict=True)}
    for turn in range(ROUNDS):
        _sweep(items, turn, both=False)
    chains = chains_of(rows, steps, count)
    for turn in range(STRAIGHT_ROUNDS):
        for chain in chains:
            mean = sum(items.centre[item] for item in chain) / len(chain)
            items.target |= dict.fromkeys(chain, mean)
        _sweep(items, turn, both=True)
    gaps = {
        (one, two): offset[index + 1] - offset[index]
        for row, offset in zip(rows, offsets, strict=True)
        for index, (one, two) in enumerate(itertools.pairwise(row))
    }
    snap(rows, chains, gaps, items.centre)
    return items.centre


def _weights(steps: Sequence[tuple[int, int]], count: int) -> tuple[Weights, Weights]:
    above: Weights = {}
    below: Weights = {}
    for one, two in steps:
        # Long links should be straight above all, then the steps from box to box.
        weight = 8.0 if one >= count and two >= count else 1.0 if two >= count else 2.0
        above.setdefault(two, []).append((one, weight))
        below.setdefault(one, []).append((two, weight))
    return above, below


def _offsets(row: Sequence[int], widths: Sequence[float], count: int) -> tuple[float, ...]:
    """Return how far each item must be from the first one at least."""
    found: list[float] = []
    at = 0.0
    for position, item in enumerate(row):
        half = widths[item] / 2 if item < count else 0.0
        if position:
            before = row[position - 1]
            gap = BOX_GAP if item < count and before < count else WAYPOINT_GAP
            at += (widths[before] / 2 if before < count else 0.0) + gap + half
        found.append(at)
    return tuple(found)


def _sweep(items: _Field, turn: int, *, both: bool) -> None:
    last = len(items.rows) - 1
    down = turn % 2 == 0
    sides = (items.above, items.below) if both else (items.above,) if down else (items.below,)
    order = range(last + 1) if down else range(last, -1, -1)
    for index in order:
        row, offset = items.rows[index], items.offsets[index]
        pulls = [_pull(items, item, sides) for item in row]
        wishes = [wish - more for (wish, _), more in zip(pulls, offset, strict=True)]
        placed = _pooled(wishes, [strength for _, strength in pulls])
        for item, at, more in zip(row, placed, offset, strict=True):
            items.centre[item] = at + more


def _pull(items: _Field, item: int, sides: tuple[Weights, ...]) -> tuple[float, float]:
    """Return where an item wants to be and how strongly."""
    if item in items.target:
        return items.target[item], RIGID
    linked = [pair for side in sides for pair in side.get(item, ())]
    total = sum(weight for _, weight in linked)
    if not total:
        return items.centre[item], 0.05
    wish = sum(items.centre[other] * weight for other, weight in linked) / total
    return wish, 4.0 if item >= items.count else 1.0


def _pooled(wishes: Sequence[float], strengths: Sequence[float]) -> list[float]:
    """Return the non-decreasing sequence nearest to the wishes, in weighted squares."""
    blocks: list[tuple[float, float, int]] = []
    for wish, strength in zip(wishes, strengths, strict=True):
        value, weight, size = wish, strength, 1
        while blocks and blocks[-1][0] > value:
            other, more, length = blocks.pop()
            value = (value * weight + other * more) / (weight + more)
            weight, size = weight + more, size + length
        blocks.append((value, weight, size))
    return [value for value, _, size in blocks for _ in range(size)]
