"""Drawing -> one self-contained HTML page in which nested graphs open and close in place."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from flodl.visual.assemble import View, assemble
from flodl.visual.layout import PADDING, TITLE_SIZE, closed_size, header_text, lay_out, times_text
from flodl.visual.svg import closed_markup, legend_markup, shared_starts, stub_labels
from flodl.visual.theme import style_sheet
from flodl.visual.wording import shortened, text_width

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.visual.layout import Drawing, Placed
    from flodl.visual.part import Part, TensorValues
    from flodl.visual.scene import Box

_PAGE_STYLE = (
    "html,body{margin:0;height:100%}body{display:flex;flex-direction:column;background:#fff;"
    "color:#1b1f24;font:14px Helvetica,Arial,'Liberation Sans',sans-serif}"
    "header{display:flex;flex-wrap:wrap;gap:8px;align-items:center;padding:8px 14px;"
    "border-bottom:1px solid #d5dae0}header svg{max-width:100%}"
    "h1{font-size:16px;margin:0 12px 0 0;overflow-wrap:anywhere}"
    "button,input{font:inherit;padding:4px 10px;border-radius:6px;min-width:34px;min-height:30px;"
    "border:1px solid #848e98;background:transparent;color:inherit}input{flex:0 1 180px}"
    "#fd-stage{flex:1;display:flex;min-height:0}"
    "#fd-svg{flex:1;width:100%;min-width:0;min-height:0;cursor:grab;touch-action:none}"
    "#fd-panel{flex:none;width:300px;box-sizing:border-box;overflow:auto;padding:12px 14px;"
    "border-left:1px solid #d5dae0;overflow-wrap:anywhere}#fd-panel[hidden]{display:none}"
    "#fd-panel h2{font-size:16px;margin:0 0 8px}#fd-panel #fd-shut{float:right}"
    "#fd-panel dl{margin:0}#fd-panel dt{font-size:12px;color:#59636e}#fd-panel dd{margin:0 0 8px}"
    "#fd-panel dd button{margin:2px 4px 2px 0;text-align:left}"
    "@media (max-width:700px){#fd-stage{flex-direction:column}"
    "#fd-panel{width:auto;max-height:45%;border-left:0;border-top:1px solid #d5dae0}}"
    "#fd-panel.fd-wide{width:min(660px,62%)}"
    ".fd-grid{position:relative;overflow:auto;height:340px;margin:4px 0;border:1px solid #848e98;"
    "border-radius:6px;font:12px/20px ui-monospace,Menlo,Consolas,'Liberation Mono',monospace}"
    ".fd-grid table{position:sticky;top:0;left:0;border-collapse:collapse;table-layout:fixed}"
    ".fd-grid th,.fd-grid td{height:20px;padding:0 6px;box-sizing:border-box;text-align:right;"
    "white-space:nowrap;overflow-wrap:normal}.fd-grid th{font-weight:400;color:#59636e}"
    ".fd-grid tbody tr:nth-child(even){background:#f1f4f8}"
    ".fd-go{display:flex;flex-wrap:wrap;gap:8px;align-items:center}"
    ".fd-go input{width:130px;box-sizing:border-box}"
    "@media (max-width:700px){#fd-panel.fd-wide{width:auto;max-height:70%}.fd-grid{height:240px}}"
    "#fd-panel dd small{margin-right:8px}#fd-panel a{color:#1d5fbf}"
    "button[aria-pressed=true]{background:#e2e9fb;color:#1b1f24}"
    ".fd-w{fill:none;stroke:transparent;stroke-width:12;cursor:pointer}"
    ".fd-step{cursor:pointer}.fd-step:focus,.fd-s:focus{outline:none}"
    ".fd-step:focus-visible>.fd-s,.fd-s:focus-visible,.fd-on>.fd-s{stroke-width:3}"
    ".fd-dim>*:not(g){opacity:.18}"
    "@media (prefers-color-scheme:dark){body{background:#0f1317;color:#e8ecf0}"
    "header,#fd-panel{border-color:#333b44}#fd-panel dt,.fd-grid th{color:#a5b0bb}"
    ".fd-grid tbody tr:nth-child(even){background:#1a2027}#fd-panel a{color:#8fb0f5}}"
)


def html_text(part: Part, view: View | None = None) -> str:
    """Return the picture of a graph as a page that needs nothing but a browser.

    Args:
        part: the graph.
        view: how much of it is open when the page is loaded.
    """
    view = view or View()
    drawing = lay_out(assemble(part, view), view.direction)
    scenes: list[dict[str, Any]] = []
    held = _HeldValues()
    _scene(drawing, scenes, held)
    outputs = [
        ("output", text)
        for box in drawing.scene.boxes
        if box.role == "output"
        for word, text in box.facts
        if word == "output"
    ]
    scenes[0]["facts"] = (*part.details.get("", ()), *outputs)
    scenes[0]["tensors"] = held.rows(part.tensors.get("", ()), part.values.get("", {}))
    # "<" cannot end the script element early when it is written as an escape.
    data = json.dumps(scenes, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    title = escape(drawing.scene.title)
    legend = drawing.scene.legend
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{title}</title><style>{_PAGE_STYLE}</style>",
            f'<style id="fd-style">{style_sheet()}</style></head><body>',
            (
                f'<header><h1>{title}</h1><input id="fd-find" type="search" placeholder="Find a step" '
                'aria-label="Find a step"><button id="fd-open">Open all</button>'
                '<button id="fd-close">Close all</button><button id="fd-fit">Fit</button>'
                '<button id="fd-tensors" aria-pressed="false">Tensors</button>'
                '<button id="fd-model">Model</button>'
                '<button id="fd-out" aria-label="Smaller">\u2212</button>'
                '<button id="fd-in" aria-label="Larger">+</button>'
                f"{_legend(legend) if legend else ''}</header>"
            ),
            (
                f'<div id="fd-stage"><svg id="fd-svg" class="fd" role="group" aria-label="{title}">'
                '<g id="fd-root"></g></svg><aside id="fd-panel" aria-label="Details of a step" hidden>'
                '<button id="fd-shut" aria-label="Close the details">\u00d7</button><h2></h2><dl></dl>'
                "</aside></div>"
            ),
            f'<script type="application/json" id="fd-data">{data}</script>',
            *held.elements(),
            f"<script>{_script()}</script></body></html>",
            "",
        )
    )


def _legend(text: str) -> str:
    width = text_width(text, 11) + 160
    return f'<svg class="fd" width="{width:.0f}" height="30">{legend_markup(text)}</svg>'


@cache
def _script() -> str:
    folder = Path(__file__).parent
    files = (folder / "tensors.js", folder / "page.js")
    return "\n".join(each.read_text(encoding="utf-8") for each in files)


@final
class _HeldValues:
    """The values of tensors in a page: an element each, which is read when its values are looked at."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._texts: list[str] = []

    def rows(
        self, tensors: tuple[tuple[str, str], ...], values: Mapping[str, TensorValues]
    ) -> list[tuple[Any, ...]]:
        """Return name, text and values of each tensor for the data of the page."""
        return [
            (name, text, self._row(values[name])) if name in values else (name, text)
            for name, text in tensors
        ]

    def elements(self) -> tuple[str, ...]:
        """Return the elements that hold the values."""
        return tuple(
            f'<script type="text/plain" id="fd-values-{number}">{text}</script>'
            for number, text in enumerate(self._texts)
        )

    def _row(self, values: TensorValues) -> dict[str, Any]:
        if values.left_out:
            return {"left": values.left_out}
        # Tied tensors have one text.
        number = self._numbers.setdefault(id(values.data), len(self._texts))
        if number == len(self._texts):
            self._texts.append(values.data)
        found = {"name": values.name, "shape": values.shape, "dtype": values.dtype}
        return {**found, "packed": values.packed, "table": values.table, "number": number}


def _scene(drawing: Drawing, scenes: list[dict[str, Any]], held: _HeldValues) -> int:
    """Add a drawing and everything inside it to the scenes of a page; return its number."""
    number = len(scenes)
    scenes.append({})
    following = (*drawing.tops[1:], drawing.length)
    bottoms = [top + height for top, height in zip(drawing.tops, drawing.heights, strict=True)]
    scenes[number] = {
        "right": drawing.is_right,
        "boxes": [_box(drawing, placed, scenes, held) for placed in drawing.boxes],
        "rows": drawing.rows,
        "centres": drawing.centres,
        "gaps": [round(top - end, 1) for top, end in zip(following, bottoms, strict=True)],
        "ways": drawing.ways,
        "ports": drawing.ports,
        "ends": drawing.ends,
        "starts": shared_starts(drawing),
        "stubs": stub_labels(drawing),
        "carried": [(link.source, link.target, link.label) for link in drawing.scene.carried],
    }
    return number


def _box(
    drawing: Drawing, placed: Placed, scenes: list[dict[str, Any]], held: _HeldValues
) -> dict[str, Any]:
    box = placed.box
    width, height = closed_size(box)
    path = next((text.removeprefix("self.") for word, text in box.facts if word == "path"), "")
    names = (f"{path}.{name}" for name, _ in box.tensors)
    words = " ".join((box.title, *box.lines, *(f"#{tag}" for tag in box.tags), box.note, *names))
    header = header_text(box)
    return {
        "role": box.role,
        "markup": closed_markup(box),
        "text": words.lower(),
        "name": f"{box.title}{times_text(box)}",
        "full": _full(box),
        "tensors": held.rows(box.tensors, box.values),
        "facts": box.facts or ([("step", box.note)] if box.note else []),
        "title": header,
        "header": round(text_width(header, TITLE_SIZE) + 2 * PADDING + 20),
        "w": width,
        "h": height,
        "base": drawing.across(placed)[1],
        "open": box.is_open,
        "inner": _scene(placed.inner, scenes, held) if placed.inner is not None else -1,
    }


def _full(box: Box) -> dict[str, Any] | None:
    """Return a closed box with a line for each of its tensors, `None` for one that has none."""
    if not box.tensors:
        return None
    lines = (f"{name} {text.partition(';')[0]}" for name, text in box.tensors)
    full = replace(box, lines=(*box.lines, *(shortened(line, 60) for line in lines)))
    width, height = closed_size(full)
    return {"markup": closed_markup(full), "w": width, "h": height}
