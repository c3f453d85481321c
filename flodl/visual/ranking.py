"""Layers of a layered drawing: every link points down, and long links pass through waypoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Pairs = Iterable[tuple[int, int]]

WAYPOINTS_PER_BOX = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Items by layer: first the boxes, by their number, then the waypoints.

    Attributes:
        rows: the items of each layer.
        count: how many items are boxes.
        steps: pairs of items in adjacent layers; all links from one box share its waypoints.
        ways: for each link its items, from source to target; a link that would need too many
            waypoints has only its two ends.
    """

    rows: tuple[tuple[int, ...], ...]
    count: int
    steps: tuple[tuple[int, int], ...]
    ways: tuple[tuple[int, ...], ...]


def rank(count: int, links: Sequence[tuple[int, int]]) -> Ranked:
    """Give every box a layer and break links into steps between adjacent layers.

    Args:
        count: the number of boxes; a link goes from a smaller number to a larger one.
        links: source and target of each link.
    """
    layer = _layers(count, links)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box, row in enumerate(layer):
        rows[row].append(box)
    longest = _longest_span(count, [layer[two] - layer[one] for one, two in links])
    chains: dict[int, list[int]] = {}
    steps: dict[tuple[int, int], None] = {}
    ways: list[tuple[int, ...]] = []
    total = count
    for one, two in links:
        span = layer[two] - layer[one]
        if span > longest:
            ways.append((one, two))
            continue
        chain = chains.setdefault(one, [one])
        while len(chain) < span:
            rows[layer[one] + len(chain)].append(total)
            steps[chain[-1], total] = None
            chain.append(total)
            total += 1
        steps[chain[span - 1], two] = None
        ways.append((*chain[:span], two))
    return Ranked(rows=tuple(map(tuple, rows)), count=count, steps=tuple(steps), ways=tuple(ways))


def _layers(count: int, links: Pairs) -> list[int]:
    """Put each box right below the lowest one that it reads, then shorten what can be shortened."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for one, two in links:
        above[two].append(one)
        below[one].append(two)
    layer = [0] * count
    for box in range(count):
        layer[box] = max((layer[each] + 1 for each in above[box]), default=0)
    for box in reversed(range(count)):
        # A box with more readers than sources makes fewer long links near its readers.
        if below[box] and len(above[box]) < len(below[box]):
            lowest = min(layer[each] for each in below[box]) - 1
            layer[box] = max(layer[box], lowest) if above[box] or box else layer[box]
    return layer


def _longest_span(count: int, spans: Sequence[int]) -> int:
    """Return the span beyond which links are cut, so that waypoints stay a small multiple of boxes."""
    budget = WAYPOINTS_PER_BOX * count + 400
    total = 0
    for span in sorted(spans):
        total += span - 1
        if total > budget:
            return max(span - 1, 2)
    return max(spans, default=1)
