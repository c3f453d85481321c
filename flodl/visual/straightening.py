"""Straight lines: items that follow each other on a main path, or along one long link, share a centre."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def chains_of(
    rows: Sequence[Sequence[int]], steps: Sequence[tuple[int, int]], count: int
) -> tuple[tuple[int, ...], ...]:
    """Return disjoint chains of items, top to bottom, that should form one vertical line.

    A box continues in the middle one of the boxes below it, if it is the middle one above that; a
    waypoint continues in the next waypoint.

    Args:
        rows: the items of each layer, left to right.
        steps: pairs of items in adjacent layers.
        count: how many items are boxes.
    """
    at = {item: position for row in rows for position, item in enumerate(row)}
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for one, two in steps:
        above.setdefault(two, []).append(one)
        below.setdefault(one, []).append(two)
    following: dict[int, int] = {}
    for row in rows:
        for item in row:
            chosen = _main(below.get(item, ()), at, count, item)
            if chosen is not None and _main(above[chosen], at, count, chosen) == item:
                following[item] = chosen
    inner = set(following.values())
    return tuple(
        _follow(item, following)
        for row in rows
        for item in row
        if item in following and item not in inner
    )


def snap(
    rows: Sequence[Sequence[int]],
    chains: Sequence[Sequence[int]],
    gaps: dict[tuple[int, int], float],
    centre: dict[int, float],
) -> None:
    """Give the items of each chain exactly one centre where their neighbours leave room for it.

    Args:
        rows: the items of each layer, left to right.
        chains: the chains.
        gaps: least distance between the centres of neighbours in a layer.
        centre: the centres; changed in place.
    """
    left = {two: one for row in rows for one, two in itertools.pairwise(row)}
    right = {one: two for row in rows for one, two in itertools.pairwise(row)}
    for chain in sorted(chains, key=len, reverse=True):
        pending = [tuple(chain)]
        while pending:
            part = pending.pop()
            low = max(
                (centre[left[i]] + gaps[left[i], i] for i in part if i in left),
                default=float("-inf"),
            )
            high = min(
                (centre[right[i]] - gaps[i, right[i]] for i in part if i in right),
                default=float("inf"),
            )
            if low <= high:
                mean = sum(centre[i] for i in part) / len(part)
                for item in part:
                    centre[item] = min(max(mean, low), high)
            elif len(part) > 2:
                half = len(part) // 2
                pending += [part[:half], part[half:]]


def _main(items: Sequence[int], at: dict[int, int], count: int, reader: int) -> int | None:
    """Return the middle one of the boxes among some items; a waypoint only has one neighbour to offer."""
    if reader >= count:
        same = [item for item in items if item >= count]
        return same[0] if same else None
    boxes = sorted((item for item in items if item < count), key=at.__getitem__)
    return boxes[(len(boxes) - 1) // 2] if boxes else None


def _follow(item: int, following: dict[int, int]) -> tuple[int, ...]:
    chain = [item]
    while chain[-1] in following:
        chain.append(following[chain[-1]])
    return tuple(chain)
