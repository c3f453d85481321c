"""A timeline as a page without scripts: a lane for each device, one for epochs, one for other events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from flodl.train.timeline.records import (
    IdleGap,
    TimelineEvent,
    TimelineSample,
    load_names,
    merged,
)

_WIDTH: Final = 1000.0
_LANE: Final = 56.0
_ROW: Final = 24.0
_GAP: Final = 10.0
_MOST_POINTS: Final = 1000  # of one lane: more than that is finer than the page
_MOST_ROWS: Final = 200  # of the table of gaps
_TICKS: Final = 8
_LETTER: Final = 6.5  # width
_FRAMES: Final = ("epoch_start", "epoch_end", "sync_start", "sync_end")
_STYLE: Final = """
:root{color-scheme:light dark;--ground:#fff;--text:#1b1f24;--soft:#59636e;--line:#d5dae0;--busy:#4470c0;
--idle:#fde6d3;--edge:#bf6a24;--epoch:#e6eefc;--sync:#8456bd}
@media (prefers-color-scheme:dark){:root{--ground:#0f1317;--text:#e8ecf0;--soft:#a5b0bb;--line:#333b44;
--busy:#7fa3ea;--idle:#402512;--edge:#e89a5c;--epoch:#1a2a49;--sync:#b78fe6}}
body{margin:0 auto;max-width:1100px;padding:16px;background:var(--ground);color:var(--text);
font:14px Helvetica,Arial,'Liberation Sans',sans-serif}
h1{font-size:20px;margin:0 0 4px}h2{font-size:16px}p{overflow-wrap:anywhere}
.scroll{overflow-x:auto}svg{min-width:640px;width:100%;height:auto;display:block}
svg text{fill:var(--soft);font-size:11px}.name{fill:var(--text);font-weight:600}
.ground{fill:none;stroke:var(--line)}.busy{fill:var(--busy);opacity:.8}.idle{fill:var(--idle)}
.edge{stroke:var(--edge);stroke-width:2}.epoch{fill:var(--epoch);stroke:var(--busy)}
.sync{fill:var(--sync)}.tick{stroke:var(--line)}
table{border-collapse:collapse}th,td{text-align:left;padding:4px 14px 4px 0}
th,td{border-bottom:1px solid var(--line)}
td.number{text-align:right;font-variant-numeric:tabular-nums}
""".strip()


def timeline_page(
    title: str,
    samples: Sequence[TimelineSample],
    events: Sequence[TimelineEvent],
    gaps: Sequence[IdleGap],
    summary: str,
) -> str:
    """Return the page.

    Args:
        title: its heading.
        samples: samples in order.
        events: events in order.
        gaps: idle gaps of all devices.
        summary: a line about all.
    """
    heading = escape(title)
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{heading}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{heading}</h1><p>{escape(summary)}</p>",
            f'<div class="scroll">{_picture(samples, events, gaps)}</div>',
            *_table(gaps),
            "</body></html>",
            "",
        )
    )


def _picture(
    samples: Sequence[TimelineSample], events: Sequence[TimelineEvent], gaps: Sequence[IdleGap]
) -> str:
    ends = [*(each.at for each in samples[-1:]), *(each.at for each in events[-1:])]
    length = max(ends, default=0.0) or 1.0
    parts: list[str] = []
    top = 16.0
    for device in dict.fromkeys(name for each in samples for name in load_names(each.values)):
        own = [gap for gap in gaps if gap.device == device]
        parts += _lane(device, samples, own, length, top)
        top += _LANE + _GAP
    rows = (("epochs", _epochs(events, length)), ("averages", _syncs(events, length)))
    for name, marks in (*rows, ("events", _others(events, length))):
        drawn = list(marks)
        if drawn:
            parts.append(f'<text class="name" x="0" y="{top + 15:.0f}">{name}</text>')
            parts += [f'<g transform="translate(0,{top:.0f})">{mark}</g>' for mark in drawn]
            top += _ROW + _GAP
    parts = [*_axis(length, top), *parts]
    size = f'viewBox="0 0 {_WIDTH + 90:.0f} {top + 24:.0f}"'
    label = escape(f"Load of the devices and events over {length:.1f} seconds", quote=True)
    return f'<svg {size} role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _x(at: float, length: float) -> float:
    return 80.0 + _WIDTH * min(at, length) / length


def _lane(
    device: str,
    samples: Sequence[TimelineSample],
    gaps: Sequence[IdleGap],
    length: float,
    top: float,
) -> Iterator[str]:
    """Yield the load of a device as an area, with its idle gaps behind it."""
    yield f'<text class="name" x="0" y="{top + _LANE / 2:.0f}">{escape(device)}</text>'
    for gap in gaps:
        x, width = _x(gap.start, length), max(1.0, _x(gap.end, length) - _x(gap.start, length))
        told = f"idle {gap.seconds:.2f} s from {gap.start:.2f} s; {_causes(gap)}"
        box = f'<rect class="idle" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_LANE:.0f}">'
        yield f"{box}<title>{escape(told)}</title></rect>"
        foot = top + _LANE
        yield f'<path class="edge" d="M{x:.1f} {foot:.1f}h{width:.1f}"/>'
    known = [each for each in samples if device in load_names(each.values)]
    per = -(-len(known) // _MOST_POINTS) or 1
    points = []
    for first in range(0, len(known), per):
        mean = merged(known[first : first + per])
        value = min(100.0, max(0.0, mean.values[load_names(mean.values)[device]]))
        points.append((_x(mean.at, length), top + _LANE * (1 - value / 100)))
    if points:
        line = " ".join(f"L{x:.1f} {y:.1f}" for x, y in points)
        foot = top + _LANE
        first_x, last_x = points[0][0], points[-1][0]
        yield f'<path class="busy" d="M{first_x:.1f} {foot:.1f} {line} L{last_x:.1f} {foot:.1f}Z"/>'
    yield f'<rect class="ground" x="80" y="{top:.1f}" width="{_WIDTH:.0f}" height="{_LANE:.0f}"/>'


def _spans(
    events: Sequence[TimelineEvent], first: str, last: str
) -> Iterator[tuple[TimelineEvent, TimelineEvent]]:
    begun: TimelineEvent | None = None
    for each in events:
        if each.kind == first:
            begun = each
        elif each.kind == last and begun is not None:
            yield begun, each
            begun = None


def _epochs(events: Sequence[TimelineEvent], length: float) -> Iterator[str]:
    for begun, ended in _spans(events, "epoch_start", "epoch_end"):
        x, right = _x(begun.at, length), _x(ended.at, length)
        number = int(ended.detail.get("epoch", 0)) + 1
        told = f"epoch {number}, {ended.at - begun.at:.2f} s"
        if "loss" in ended.detail:
            told += f", loss {ended.detail['loss']:.6g}"
        box = f'<rect class="epoch" x="{x:.1f}" y="0" width="{max(1.0, right - x):.1f}" height="{_ROW:.0f}">'
        yield f"{box}<title>{escape(told)}</title></rect>"
        if right - x > 8 * len(str(number)):
            yield f'<text x="{(x + right) / 2:.1f}" y="16" text-anchor="middle">{number}</text>'


def _syncs(events: Sequence[TimelineEvent], length: float) -> Iterator[str]:
    spans = list(_spans(events, "sync_start", "sync_end"))
    per = -(-len(spans) // _MOST_POINTS) or 1
    for begun, ended in spans[::per]:
        x, right = _x(begun.at, length), _x(ended.at, length)
        yield f'<rect class="sync" x="{x:.1f}" y="4" width="{max(0.7, right - x):.1f}" height="16"/>'


def _others(events: Sequence[TimelineEvent], length: float) -> Iterator[str]:
    found = [each for each in events if each.kind not in _FRAMES]
    per = -(-len(found) // _MOST_POINTS) or 1
    free = 0.0
    for each in found[::per]:
        x = _x(each.at, length)
        detail = ", ".join(f"{name} {value}" for name, value in each.detail.items())
        told = escape(f"{each.at:.2f} s: {each.kind}" + (f" ({detail})" if detail else ""))
        yield f'<path class="edge" d="M{x:.1f} 2v20"><title>{told}</title></path>'
        room = _LETTER * len(each.kind)
        is_last = x + room > 80 + _WIDTH  # else it would end beside the picture
        if x >= free and not (is_last and x - room < free):  # else it would cover the word before
            place = f'x="{x - 4:.1f}" text-anchor="end"' if is_last else f'x="{x + 4:.1f}"'
            yield f'<text {place} y="16">{escape(each.kind)}</text>'
            free = x + 12 + room


def _axis(length: float, top: float) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        at = length * tick / _TICKS
        x = _x(at, length)
        yield f'<path class="tick" d="M{x:.1f} 8V{top:.0f}"/>'
        anchor = "end" if tick == _TICKS else "middle"
        yield f'<text x="{x:.1f}" y="{top + 14:.0f}" text-anchor="{anchor}">{at:.1f} s</text>'


def _causes(gap: IdleGap) -> str:
    return ", ".join(gap.causes) or "no event"


def _table(gaps: Sequence[IdleGap]) -> Iterator[str]:
    """Yield the longest gaps as rows."""
    if not gaps:
        yield "<p>No device was idle for long.</p>"
        return
    longest = sorted(gaps, key=lambda gap: -gap.seconds)[:_MOST_ROWS]
    more = f" (the longest {len(longest)} of {len(gaps)})" if len(gaps) > len(longest) else ""
    yield f'<h2>Idle gaps{more}</h2><div class="scroll"><table>'
    yield "<tr><th>Device</th><th>From</th><th>Seconds</th><th>Events in it</th></tr>"
    for gap in longest:
        cells = (
            f'<td class="number">{gap.start:.2f} s</td><td class="number">{gap.seconds:.2f}</td>'
        )
        yield f"<tr><td>{escape(gap.device)}</td>{cells}<td>{escape(_causes(gap))}</td></tr>"
    yield "</table></div>"
