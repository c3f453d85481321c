"""Drawing -> one self-contained HTML page in which nested graphs open and close in place."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flodl.visual.assemble import View, assemble
from flodl.visual.layout import PADDING, TITLE_SIZE, closed_size, header_text, lay_out
from flodl.visual.svg import closed_markup, legend_markup, shared_starts, stub_labels
from flodl.visual.theme import style_sheet
from flodl.visual.wording import text_width

if TYPE_CHECKING:
    from flodl.visual.layout import Drawing, Placed
    from flodl.visual.part import Part

_PAGE_STYLE = (
    "html,body{margin:0;height:100%}body{display:flex;flex-direction:column;background:#fff;"
    "color:#1b1f24;font:14px Helvetica,Arial,'Liberation Sans',sans-serif}"
    "header{display:flex;gap:8px;align-items:center;padding:8px 14px;border-bottom:1px solid #d5dae0}"
    "h1{font-size:16px;margin:0 12px 0 0}button,input{font:inherit;padding:4px 10px;border-radius:6px;"
    "border:1px solid #aab2bb;background:transparent;color:inherit}"
    "#fd-svg{flex:1;width:100%;min-height:0;cursor:grab;touch-action:none}"
    ".fd-fold{cursor:pointer}.fd-fold:focus-visible>.fd-s{stroke-width:3}.fd-dim>*:not(g){opacity:.18}"
    "@media (prefers-color-scheme:dark){body{background:#0f1317;color:#e8ecf0}"
    "header{border-color:#333b44}}"
)


def html_text(part: Part, view: View | None = None) -> str:
    """Return the picture of a graph as a page that needs nothing but a browser.

    Args:
        part: the graph.
        view: how much of it is open when the page is loaded.
    """
    drawing = lay_out(assemble(part, view or View()))
    scenes: list[dict[str, Any]] = []
    _scene(drawing, scenes)
    # "<" cannot end the script element early when it is written as an escape.
    data = json.dumps(scenes, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    title = escape(drawing.scene.title)
    legend = drawing.scene.legend
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}</title><style>{_PAGE_STYLE}{style_sheet()}</style></head><body>",
            (
                f'<header><h1>{title}</h1><input id="fd-find" type="search" placeholder="Find a step" '
                'aria-label="Find a step"><button id="fd-open">Open all</button>'
                '<button id="fd-close">Close all</button><button id="fd-fit">Fit</button>'
                f"{_legend(legend) if legend else ''}</header>"
            ),
            f'<svg id="fd-svg" class="fd" role="img" aria-label="{title}"><g id="fd-root"></g></svg>',
            f'<script type="application/json" id="fd-data">{data}</script>',
            f"<script>{_script()}</script></body></html>",
            "",
        )
    )


def _legend(text: str) -> str:
    width = text_width(text, 11) + 160
    return f'<svg class="fd" width="{width:.0f}" height="30">{legend_markup(text)}</svg>'


@cache
def _script() -> str:
    return (Path(__file__).parent / "page.js").read_text(encoding="utf-8")


def _scene(drawing: Drawing, scenes: list[dict[str, Any]]) -> int:
    """Add a drawing and everything inside it to the scenes of a page; return its number."""
    number = len(scenes)
    scenes.append({})
    following = (*drawing.tops[1:], drawing.height)
    bottoms = [top + height for top, height in zip(drawing.tops, drawing.heights, strict=True)]
    scenes[number] = {
        "boxes": [_box(placed, scenes) for placed in drawing.boxes],
        "rows": drawing.rows,
        "centres": drawing.centres,
        "gaps": [round(top - end, 1) for top, end in zip(following, bottoms, strict=True)],
        "ways": drawing.ways,
        "ports": drawing.ports,
        "starts": shared_starts(drawing),
        "stubs": stub_labels(drawing),
        "carried": [(link.source, link.target, link.label) for link in drawing.scene.carried],
    }
    return number


def _box(placed: Placed, scenes: list[dict[str, Any]]) -> dict[str, Any]:
    box = placed.box
    width, height = closed_size(box)
    words = " ".join((box.title, *box.lines, *(f"#{tag}" for tag in box.tags), box.note))
    header = header_text(box)
    return {
        "role": box.role,
        "markup": closed_markup(box),
        "text": words.lower(),
        "title": header,
        "header": round(text_width(header, TITLE_SIZE) + 2 * PADDING + 20),
        "w": width,
        "h": height,
        "base": placed.width,
        "open": box.is_open,
        "inner": _scene(placed.inner, scenes) if placed.inner is not None else -1,
    }
