"""Scene -> Mermaid flowchart, for Markdown pages; repeated blocks and nested graphs are subgraphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.visual.assemble import View, assemble
from flodl.visual.layout import small_lines, tag_text, times_text

if TYPE_CHECKING:
    from flodl.visual.part import Part
    from flodl.visual.scene import Box, Role, Scene

_SHAPES: dict[Role, tuple[str, str]] = {
    "input": ("([", "])"),
    "output": ("([", "])"),
    "entry": ("([", "])"),
    "operator": ("((", "))"),
    "merge": ("((", "))"),
    "activation": ("(", ")"),
    "loop": ("[[", "]]"),
    "graph": ("[[", "]]"),
    "choice": ("{", "}"),
}


def mermaid_text(part: Part, view: View | None = None) -> str:
    """Return the picture of a graph as a Mermaid flowchart.

    Args:
        part: the graph.
        view: how much of it to show.
    """
    view = view or View()
    lines = [f"flowchart {'LR' if view.direction == 'right' else 'TD'}"]
    _scene(assemble(part, view), "n", "  ", lines)
    return "\n".join(lines) + "\n"


def _scene(scene: Scene, prefix: str, indent: str, lines: list[str]) -> None:
    for number, box in enumerate(scene.boxes):
        name = f"{prefix}{number}"
        if box.inner is not None and box.is_open:
            lines.append(f"{indent}subgraph {name}[{_label(box)}]")
            _scene(box.inner, f"{name}_", indent + "  ", lines)
            lines.append(f"{indent}end")
        else:
            opening, closing = _SHAPES.get(box.role, ("[", "]"))
            lines.append(f"{indent}{name}{opening}{_label(box)}{closing}")
    lines += [f"{indent}{prefix}{link.source} --> {prefix}{link.target}" for link in scene.links]
    lines += [
        f"{indent}{prefix}{link.source} -. state .-> {prefix}{link.target}"
        for link in scene.carried
    ]


def _label(box: Box) -> str:
    parts = [f"{box.title}{times_text(box)}", *small_lines(box)]
    tags = tag_text(box)
    text = "<br>".join(_escaped(part) for part in [*parts, *([tags] if tags else [])])
    return f'"{text}"'


def _escaped(text: str) -> str:
    """Write the characters that Mermaid would read as its own as entities."""
    return "".join(
        char if char.isalnum() or char in " ._-+,:=()" or not char.isascii() else f"#{ord(char)};"
        for char in text
    )
