"""Scene -> drawing: sizes, layers, order, places and routes, inner scenes first.

Layers follow each other *along* the direction of a drawing, and their items lie side by side *across* it.
A drawing to the right has the same layers as one that goes down, with x and y exchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from flodl.visual.carried import CLEAR, LANE
from flodl.visual.ordering import ordered
from flodl.visual.placing import place
from flodl.visual.ranking import rank
from flodl.visual.scene import Box, Scene
from flodl.visual.wording import text_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flodl.visual.assemble import Direction
    from flodl.visual.ranking import Ranked

TITLE_SIZE, SMALL_SIZE = 13.0, 11.0
TITLE_HEIGHT, LINE_HEIGHT = 17.0, 14.0
PADDING = 12.0
HEADER = 24.0
LAYER_GAP = 30.0
PORT_GAP = 12.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A box with its top left corner and its size; an open one shows its inner drawing below a header."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    inner: Drawing | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A scene with geometry.

    Attributes:
        is_right: whether layers follow each other to the right, instead of down.
        boxes: the boxes, in the order of the scene.
        rows: the items of each layer, in their order across: boxes by number, then waypoints.
        row_of: the layer of every item.
        centres: the centre of every item, across.
        tops: the first edge of every layer along; the last edge is the first one plus the layer's height.
        heights: the extents of the layers along.
        ways: for each link of the scene the items it passes.
        ports: for each link how far from the middle of its target it arrives.
        ends: for each link how far beyond the first edge of its target it ends, where corners are round.
    """

    scene: Scene
    is_right: bool
    width: float
    height: float
    boxes: tuple[Placed, ...]
    rows: tuple[tuple[int, ...], ...]
    row_of: tuple[int, ...]
    centres: tuple[float, ...]
    tops: tuple[float, ...]
    heights: tuple[float, ...]
    ways: tuple[tuple[int, ...], ...]
    ports: tuple[float, ...]
    ends: tuple[float, ...]

    @property
    def length(self) -> float:
        """Return the extent along."""
        return self.width if self.is_right else self.height

    def point(self, across: float, along: float) -> tuple[float, float]:
        """Return x and y of a place."""
        return (along, across) if self.is_right else (across, along)

    def across(self, box: Placed) -> tuple[float, float]:
        """Return where a box begins across, and its extent."""
        return (box.y, box.height) if self.is_right else (box.x, box.width)

    def along(self, box: Placed) -> tuple[float, float]:
        """Return where a box begins along, and its extent."""
        return (box.x, box.width) if self.is_right else (box.y, box.height)


def lay_out(scene: Scene, direction: Direction = "down") -> Drawing:
    """Give every box of a scene its place and every link its way."""
    is_right = direction == "right"
    inner = tuple(
        lay_out(box.inner, direction) if box.inner is not None else None for box in scene.boxes
    )
    sizes = [
        open_size(box, drawing) if drawing is not None and box.is_open else closed_size(box)
        for box, drawing in zip(scene.boxes, inner, strict=True)
    ]
    spans = [(height, width) if is_right else (width, height) for width, height in sizes]
    links = [(link.source, link.target) for link in scene.links]
    ranked = rank(len(scene.boxes), links)
    rows = ordered(ranked.rows, ranked.steps)
    centre = place(rows, ranked.steps, [across for across, _ in spans], ranked.count)
    tops, heights = _along(rows, ranked, centre, spans)
    left = min((centre[i] - spans[i][0] / 2 for i in range(ranked.count)), default=0.0)
    left = min([left, *(centre[i] - 6 for i in centre)]) - LANE * len(scene.carried)
    right = max((centre[i] + spans[i][0] / 2 for i in range(ranked.count)), default=0.0)
    right = max([right, *(centre[i] + 6 for i in centre)])
    shifted = tuple(round(centre[item] - left, 1) for item in range(len(centre)))
    row_of = {item: index for index, row in enumerate(rows) for item in row}
    corners = [
        (
            shifted[index] - across / 2,
            tops[row_of[index]] + (heights[row_of[index]] - along) / 2,
        )
        for index, (across, along) in enumerate(spans)
    ]
    boxes = tuple(
        Placed(
            box=box,
            x=corner[1] if is_right else corner[0],
            y=corner[0] if is_right else corner[1],
            width=size[0],
            height=size[1],
            inner=drawing,
        )
        for box, corner, size, drawing in zip(scene.boxes, corners, sizes, inner, strict=True)
    )
    ports = _ports(ranked, shifted, [across for across, _ in spans])
    length = tops[-1] + heights[-1] + (CLEAR if scene.carried else 0.0) if tops else 0.0
    return Drawing(
        scene=scene,
        is_right=is_right,
        width=length if is_right else right - left,
        height=right - left if is_right else length,
        boxes=boxes,
        rows=rows,
        row_of=tuple(row_of[item] for item in range(len(row_of))),
        centres=shifted,
        tops=tops,
        heights=heights,
        ways=ranked.ways,
        ports=ports,
        ends=tuple(
            _drop(boxes[way[-1]], spans[way[-1]][0], port)
            for way, port in zip(ranked.ways, ports, strict=True)
        ),
    )


def closed_size(box: Box) -> tuple[float, float]:
    """Return width and height of a box whose inside is not shown."""
    if box.role == "operator" and not box.lines and not box.tags and not box.cost:
        side = max(28.0, text_width(box.title, TITLE_SIZE + 2) + 14)
        return side, 28.0
    if box.role == "entry":
        return text_width(box.title, SMALL_SIZE) + 18, 20.0
    texts = [text_width(f"{box.title}{times_text(box)}", TITLE_SIZE)]
    texts += [text_width(line, SMALL_SIZE) for line in small_lines(box)]
    tags = tag_text(box)
    if tags:
        texts.append(text_width(tags, SMALL_SIZE))
    count = len(small_lines(box)) + bool(tags)
    width = max(56.0, max(texts) + 2 * PADDING + (14 if box.inner is not None else 0))
    return round(width), 10 + TITLE_HEIGHT + LINE_HEIGHT * count


def open_size(box: Box, drawing: Drawing) -> tuple[float, float]:
    """Return width and height of a box that shows its inside."""
    title = text_width(header_text(box), TITLE_SIZE) + 2 * PADDING + 20
    return max(title, drawing.width + 2 * PADDING), drawing.height + HEADER + PADDING + 4


def corner_radius(box: Box, height: float, *, is_open: bool = False) -> float:
    """Return the radius of the corners of a box."""
    if is_open:
        return 9.0
    if box.role in ("input", "output", "entry", "operator"):
        return min(height / 2, 14.0)
    return 13.0 if box.role in ("activation", "loop") else 5.0


def header_text(box: Box) -> str:
    """Return the header of an open box."""
    tags = [tag_text(box)] if box.tags else []
    if box.role == "repeat":
        sign = "\u27f3 " if box.title.endswith("times") else ""
        return "  ".join([f"{sign}{box.title}", *tags])
    extra = " \u00b7 ".join([*box.lines[:1], *([box.cost] if box.cost else [])])
    return "  ".join([f"{box.title}{times_text(box)}", *([extra] if extra else []), *tags])


def times_text(box: Box) -> str:
    """Return the multiplier behind a title, empty for a single step."""
    return f" \u00d7 {box.times}" if box.times > 1 and box.role != "repeat" else ""


def small_lines(box: Box) -> tuple[str, ...]:
    """Return the small lines of a box, cost included."""
    return (*box.lines, *([box.cost] if box.cost else []))


def tag_text(box: Box) -> str:
    """Return the tags as one line, the first three by name."""
    shown = " ".join(f"#{tag}" for tag in box.tags[:3])
    return f"{shown} +{len(box.tags) - 3}" if len(box.tags) > 3 else shown


def _along(
    rows: Sequence[Sequence[int]],
    ranked: Ranked,
    centre: dict[int, float],
    spans: Sequence[tuple[float, float]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return where the layers begin, and their extents."""
    row_of = {item: index for index, row in enumerate(rows) for item in row}
    slant = [0.0] * len(rows)
    for one, two in ranked.steps:
        upper = row_of[one]
        slant[upper] = max(slant[upper], abs(centre[one] - centre[two]))
    tops: list[float] = []
    heights: list[float] = []
    at = 0.0
    for index, row in enumerate(rows):
        height = max((spans[item][1] for item in row if item < ranked.count), default=0.0)
        tops.append(at)
        heights.append(height)
        # Long slants in a flat gap are hard to follow with the eye.
        at += height + LAYER_GAP + min(slant[index] / 12, 40.0)
    return tuple(tops), tuple(heights)


def _ports(ranked: Ranked, centres: Sequence[float], spans: Sequence[float]) -> tuple[float, ...]:
    """Spread the links that arrive at one box, in the order they come from.

    `spans` are the extents of the boxes across.
    """
    arriving: dict[int, list[tuple[float, int]]] = {}
    for number, way in enumerate(ranked.ways):
        arriving.setdefault(way[-1], []).append((centres[way[-2]], number))
    ports = [0.0] * len(ranked.ways)
    for target, arrivals in arriving.items():
        arrivals.sort()
        gap = min(PORT_GAP, (spans[target] - 10) / len(arrivals))
        middle = (len(arrivals) - 1) / 2
        for position, (centre, _) in enumerate(arrivals):
            if abs(centre - centres[target]) < 1 and len(arrivals) > 1:
                middle = position  # a straight link stays straight
        shift = _inside(middle, len(arrivals), gap, spans[target])
        for position, (_, number) in enumerate(arrivals):
            ports[number] = round((position - shift) * gap, 1)
    return tuple(ports)


def _drop(target: Placed, span: float, port: float) -> float:
    """Return how far beyond the first edge of a box its outline is, at a distance from its middle."""
    is_open = target.inner is not None and target.box.is_open
    radius = corner_radius(target.box, target.height, is_open=is_open)
    beyond = min(abs(port) - (span / 2 - radius), radius)
    return round(radius - math.sqrt(radius**2 - beyond**2), 1) if beyond > 0 else 0.0


def _inside(middle: float, count: int, gap: float, width: float) -> float:
    """Move the middle of the arriving links so far that all of them meet the box."""
    reach = (width / 2 - 5) / gap if gap else 0.0
    return min(max(middle, count - 1 - reach), reach)
