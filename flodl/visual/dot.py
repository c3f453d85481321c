"""A description as a Graphviz `digraph`: levels as clusters, tags and costs on the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.ir.graph import node_refs, refs
from flodl.visual.assemble import UNKNOWN_WIRING
from flodl.visual.carried import carried_states
from flodl.visual.part import Part
from flodl.visual.theme import heat_colour, ink_on
from flodl.visual.wording import count_text, role_of, title_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.ir.graph import GraphSpec, NodeSpec
    from flodl.visual.scene import Role

_LOOKS: dict[Role, tuple[str, str]] = {
    "input": ("invhouse", "#aed6f1"),
    "output": ("house", "#a9dfbf"),
    "entry": ("plaintext", "#ffffff"),
    "layer": ("box", "#eaecee"),
    "activation": ("ellipse", "#fdebd0"),
    "norm": ("box", "#d5f5e3"),
    "operation": ("box", "#eaecee"),
    "operator": ("circle", "#d5dbdb"),
    "merge": ("circle", "#d5dbdb"),
    "loop": ("box3d", "#d7bde2"),
    "item": ("box", "#f4f6f7"),
    "graph": ("folder", "#d6eaf8"),
    "repeat": ("box", "#ffffff"),
    "state": ("diamond", "#f9e79f"),
    "choice": ("diamond", "#f5cba7"),
    "pool": ("box", "#fadbd8"),
    "dropout": ("box", "#e5e0d8"),
    "shape": ("box", "#eef3d0"),
}


def dot_text(spec: GraphSpec, title: str, kinds: Mapping[str, str]) -> str:
    """Return the graph in the DOT language, one node per step and one edge per value read.

    Args:
        spec: the description.
        title: name of the graph.
        kinds: class names of the submodules, by path.
    """
    return dot_of(Part(spec=spec, title=spec.label or title, kinds=kinds))


def dot_of(part: Part) -> str:
    """Return a graph with everything known of it in the DOT language.

    Args:
        part: the graph; costs, parameter counts and shapes appear where they are known.
    """
    spec = part.spec
    lines = [
        f"digraph {_quoted(part.title)} {{",
        "  rankdir=TB; compound=true; fontname=Helvetica;",
        "  node [fontname=Helvetica, fontsize=11, style=filled];",
        '  edge [fontname=Helvetica, fontsize=9, color="#2c3e50"];',
    ]
    if part.measure:
        lines.append(f"  label={_quoted(f'{part.measure}: {part.total}')}; labelloc=t;")
    for level, nodes in enumerate(_levels(spec)):
        lines.append(f"  subgraph cluster_level_{level} {{")
        lines.append(f'    label="level {level}"; style=dashed; color="#999999"; rank=same;')
        lines += [f"    {_node(part, spec.nodes[node])}" for node in nodes]
        lines.append("  }")
    shape, colour = _LOOKS["output"]
    if part.unknown:
        lines.append(f"  unknown [label={_quoted(UNKNOWN_WIRING)}, shape=plaintext, style=solid];")
    else:
        lines.append(f'  output [label="output", shape={shape}, fillcolor="{colour}"];')
    for node in spec.nodes:
        lines += [f"  n{ref} -> n{node.index};" for ref in dict.fromkeys(node_refs(node))]
    lines += [f"  n{ref} -> output;" for ref in dict.fromkeys(refs(spec.output))]
    lines += [
        f"  n{each.writer} -> n{each.reader} "
        '[label="state", style=dotted, color="#e67e22", constraint=false];'
        for each in carried_states(spec)
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _levels(spec: GraphSpec) -> list[list[int]]:
    """Return the nodes by topological depth: nodes in one level could run at the same time."""
    depth: list[int] = []
    levels: list[list[int]] = []
    for node in spec.nodes:
        level = max((depth[ref] + 1 for ref in node_refs(node)), default=0)
        depth.append(level)
        if level == len(levels):
            levels.append([])
        levels[level].append(node.index)
    return levels


def _node(part: Part, node: NodeSpec) -> str:
    role, title = role_of(part, node), title_of(part, node)
    lines = [node.name] if node.kind == "input" else [node.name, title]
    lines += [f"#{tag}" for tag in part.spec.tags_of(node.index)]
    heat = part.heat.get(node.index)
    lines += [heat.text] if heat is not None else []
    count = part.parameters.get(node.target, 0) if node.kind in ("module", "loop") else 0
    lines += [f"[{count_text(count)} params]"] if count else []
    lines += [part.shapes[node.index]] if node.index in part.shapes else []
    shape, colour = _LOOKS[role]
    ink = ""
    if heat is not None:
        hottest = max(each.amount for each in part.heat.values())
        share = heat.amount / hottest if hottest else 0.0
        colour, ink = heat_colour(share), f', fontcolor="{ink_on(share)}"'
    label = _quoted("\n".join(lines))
    return f'n{node.index} [label={label}, shape={shape}, fillcolor="{colour}"{ink}];'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
