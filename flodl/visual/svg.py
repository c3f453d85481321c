"""Drawing -> SVG text, without any external program; readable on light and dark ground."""

from __future__ import annotations

import itertools
from html import escape
from typing import TYPE_CHECKING

from flodl.visual.assemble import View, assemble
from flodl.visual.carried import corners
from flodl.visual.layout import (
    HEADER,
    LINE_HEIGHT,
    PADDING,
    TITLE_SIZE,
    Drawing,
    Placed,
    closed_size,
    corner_radius,
    header_text,
    lay_out,
    small_lines,
    tag_text,
    times_text,
)
from flodl.visual.theme import heat_colour, ink_on, style_sheet
from flodl.visual.wording import shortened, text_width

if TYPE_CHECKING:
    from flodl.visual.part import Part
    from flodl.visual.scene import Box

MARGIN = 16.0
STUB = 18.0


def svg_text(part: Part, view: View | None = None) -> str:
    """Return the picture of a graph as a complete SVG document.

    Args:
        part: the graph.
        view: how much of it to show.
    """
    view = view or View()
    return render(lay_out(assemble(part, view), view.direction))


def render(drawing: Drawing) -> str:
    """Return a drawing as a complete SVG document."""
    legend = drawing.scene.legend
    top = MARGIN + (30 if legend else 0)
    least = text_width(legend, 11) + 150 if legend else 0
    width = max(drawing.width, least) + 2 * MARGIN
    height = drawing.height + top + MARGIN
    left = (width - drawing.width) / 2
    title = escape(drawing.scene.title)
    return "".join(
        (
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" class="fd" role="img" aria-label="{title}" '
                f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}">\n'
            ),
            f"<title>{title}</title><style>{style_sheet()}</style>\n",
            f'<rect class="fd-page" width="{_n(width)}" height="{_n(height)}"/>\n',
            legend_markup(legend) if legend else "",
            f'<g transform="translate({_n(left)} {_n(top)})">\n',
            *scene_lines(drawing),
            "</g>\n</svg>\n",
        )
    )


def scene_lines(drawing: Drawing) -> list[str]:
    """Return the SVG elements of a drawing: links first, so that boxes lie on top."""
    stubs = stub_labels(drawing)
    links = (
        _link(drawing, number, start, stubs.get(number))
        for number, start in enumerate(shared_starts(drawing))
    )
    lines = [f"{link}\n" for link in links if link]
    lines += [f"{_carried(drawing, number)}\n" for number in range(len(drawing.scene.carried))]
    lines += [f"{_box(placed)}\n" for placed in drawing.boxes]
    return lines


def path_data(drawing: Drawing, number: int, start: int = 0) -> str:
    """Return the path of a link: straight beside boxes, curved only between layers.

    Args:
        drawing: the drawing.
        number: the link.
        start: how many waypoints are left out because another link from the same box shows them.
    """
    way = drawing.ways[number]
    row_of = drawing.row_of
    begin, length = drawing.along(drawing.boxes[way[0]])
    first, _ = drawing.along(drawing.boxes[way[-1]])
    end = drawing.centres[way[-1]] + drawing.ports[number]
    on = "H" if drawing.is_right else "V"
    if _is_cut(drawing, number):
        return f"M{_at(drawing, end, first - STUB)}{on}{_n(first + drawing.ends[number])}"
    bottom = _lower(drawing, way[start]) if start else begin + length
    parts = [f"M{_at(drawing, drawing.centres[way[start]], bottom)}"]
    for one, two in itertools.pairwise(way[start:]):
        leave, stop = _lower(drawing, one), drawing.tops[row_of[two]]
        here, to = drawing.centres[one], end if two == way[-1] else drawing.centres[two]
        middle = (leave + stop) / 2
        if leave > bottom:
            parts.append(f"{on}{_n(leave)}")
        if abs(here - to) < 0.5:
            parts.append(f"{on}{_n(stop)}")
        else:
            bend = ((here, middle), (to, middle), (to, stop))
            parts.append("C" + " ".join(_at(drawing, *corner) for corner in bend))
        bottom = stop
    parts.append(f"{on}{_n(first + drawing.ends[number])}")
    return "".join(parts)


def _at(drawing: Drawing, across: float, along: float) -> str:
    """Return x and y of a place, as text."""
    x, y = drawing.point(across, along)
    return f"{_n(x)} {_n(y)}"


def _arrow(drawing: Drawing, style: str, x: float, y: float) -> str:
    """Return the head of an arrow with its tip at a place."""
    sides = "l-7 -3.5v7z" if drawing.is_right else "l-3.5 -7h7z"
    return f'<path class="{style}" d="M{_n(x)} {_n(y)}{sides}"/>'


def _lower(drawing: Drawing, item: int) -> float:
    row = drawing.row_of[item]
    return drawing.tops[row] + drawing.heights[row]


def shared_starts(drawing: Drawing) -> tuple[int, ...]:
    """Return for each link how many waypoints an earlier link from the same box already shows."""
    shown: dict[int, int] = {}
    starts: list[int] = []
    for number, way in enumerate(drawing.ways):
        waypoints = 0 if _is_cut(drawing, number) else len(way) - 2
        starts.append(min(waypoints, shown.get(way[0], 0)))
        shown[way[0]] = max(waypoints, shown.get(way[0], 0))
    return tuple(starts)


def stub_labels(drawing: Drawing) -> dict[int, str]:
    """Return the marks at links that are not drawn over their whole length.

    Of all such links to one box only the first is shown, with the text; the others have none.
    """
    cut: dict[int, list[int]] = {}
    for number, way in enumerate(drawing.ways):
        if _is_cut(drawing, number):
            cut.setdefault(way[-1], []).append(number)
    labels: dict[int, str] = {}
    for numbers in cut.values():
        labels |= dict.fromkeys(numbers, "")
        source = drawing.boxes[drawing.ways[numbers[0]][0]].box.title
        labels[numbers[0]] = (
            f"from {shortened(source, 18)}"
            if len(numbers) == 1
            else f"from {len(numbers)} earlier steps"
        )
    return labels


def _link(drawing: Drawing, number: int, start: int, stub: str | None) -> str:
    way = drawing.ways[number]
    if stub == "":
        return ""
    end = drawing.centres[way[-1]] + drawing.ports[number]
    first, _ = drawing.along(drawing.boxes[way[-1]])
    arrow = _arrow(drawing, "fd-a", *drawing.point(end, first + drawing.ends[number]))
    path = f'<path class="fd-e" d="{path_data(drawing, number, start)}"/>'
    label = stub or drawing.scene.links[number].label
    if not label:
        return path + arrow
    x, y = drawing.point(end, first - STUB - 3)
    if (
        drawing.is_right
    ):  # texts are centred: this one ends before the link, in the middle of its line
        x, y = x - text_width(label, 11) / 2, y + 4
    text = f'<text class="fd-m" x="{_n(x)}" y="{_n(y)}">{escape(label)}</text>'
    return path + arrow + text


def _carried(drawing: Drawing, number: int) -> str:
    points = corners(drawing, number)
    way = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
    name = escape(drawing.scene.carried[number].label)
    return (
        f'<path class="fd-c" d="M{way}"><title>state {name}, for the next call</title></path>'
        f"{_arrow(drawing, 'fd-d', *points[-1])}"
    )


def _is_cut(drawing: Drawing, number: int) -> bool:
    way = drawing.ways[number]
    return drawing.row_of[way[-1]] - drawing.row_of[way[0]] != len(way) - 1


def _box(placed: Placed) -> str:
    box = placed.box
    inside = _opened(placed) if placed.inner is not None and box.is_open else closed_markup(box)
    head = f'<g class="fd-{box.role}" transform="translate({_n(placed.x)} {_n(placed.y)})">'
    return f"{head}{inside}</g>"


def _opened(placed: Placed) -> str:
    """Return the elements of an open box: frame, header, and the scene inside."""
    assert placed.inner is not None
    left = (placed.width - placed.inner.width) / 2
    header = escape(header_text(placed.box))
    return (
        f'{_note(placed.box)}<rect class="fd-s" width="{_n(placed.width)}" '
        f'height="{_n(placed.height)}" rx="{_n(corner_radius(placed.box, placed.height, is_open=True))}"/>'
        f'<text class="fd-t fd-h" x="{_n(PADDING)}" y="17">{header}</text>'
        f'<g transform="translate({_n(left)} {_n(HEADER + 4)})">\n'
        f"{''.join(scene_lines(placed.inner))}</g>"
    )


def closed_markup(box: Box) -> str:
    """Return the elements of a box whose inside is not shown: its shape and its lines of text."""
    width, height = closed_size(box)
    radius = corner_radius(box, height)
    colour = ink = ""
    if box.heat is not None:
        colour = f' style="fill:{heat_colour(box.heat)}"'
        ink = f' style="fill:{ink_on(box.heat)}"'
    size = f'width="{_n(width)}" height="{_n(height)}"'
    parts = [_note(box)]
    if box.times > 1 or box.inner is not None:
        parts.append(f'<rect class="fd-s" x="4" y="4" {size} rx="{_n(max(radius, 6.0))}"/>')
    parts.append(f'<rect class="fd-s" {size} rx="{_n(radius)}"{colour}/>')
    y = 19.0 if box.role == "operator" else 14.0 if box.role == "entry" else 5 + TITLE_SIZE + 1
    kind = {"operator": "fd-t fd-o", "entry": "fd-m"}.get(box.role, "fd-t")
    rows = [(kind, f"{box.title}{times_text(box)}")]
    rows += [("fd-m", line) for line in small_lines(box)]
    rows += [("fd-g", tags)] if (tags := tag_text(box)) else []
    for position, (style, text) in enumerate(rows):
        at = f'x="{_n(width / 2)}" y="{_n(y + position * LINE_HEIGHT)}"'
        parts.append(f'<text class="{style}" {at}{ink}>{escape(text)}</text>')
    return "".join(parts)


def _note(box: Box) -> str:
    return f"<title>{escape(box.note or box.title)}</title>"


def legend_markup(text: str) -> str:
    """Return the colour scale of a heat map with its text, 30 high."""
    steps = "".join(
        f'<rect x="{16 + 10 * step}" y="12" width="10" height="12" '
        f'style="fill:{heat_colour(step / 11)}"/>'
        for step in range(12)
    )
    return f'{steps}<text class="fd-h" x="144" y="22">{escape(text)}</text>\n'


def _n(value: float) -> str:
    """Return a number with at most one digit behind the point."""
    return f"{value:.1f}".removesuffix(".0")
