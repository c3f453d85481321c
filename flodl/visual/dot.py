"""A description as a Graphviz `digraph`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.spec.graph import node_refs, refs
from flodl.spec.pretty import operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.spec.graph import GraphSpec, NodeSpec

_SHAPES = {"input": "ellipse", "module": "box", "loop": "box", "merge": "circle", "operator": "circle"}


def dot_text(spec: GraphSpec, title: str, kinds: Mapping[str, str]) -> str:
    """Return the graph in the DOT language, one node per step and one edge per value read.

    Args:
        spec: the description.
        title: name of the graph.
        kinds: class names of the submodules, by path.
    """
    lines = [f"digraph {_quoted(spec.label or title)} {{", "  rankdir=TB;"]
    lines += [f"  {_node(spec, node, kinds)}" for node in spec.nodes]
    lines.append('  output [label="output", shape=ellipse];')
    for node in spec.nodes:
        for ref in dict.fromkeys(node_refs(node)):
            lines.append(f"  n{ref} -> n{node.index};")
    lines += [f"  n{ref} -> output;" for ref in dict.fromkeys(refs(spec.output))]
    return "\n".join([*lines, "}"]) + "\n"


def _node(spec: GraphSpec, node: NodeSpec, kinds: Mapping[str, str]) -> str:
    text = node.name if node.kind == "input" else f"{node.name}\n{operation(node, kinds)}"
    tags = spec.tags_of(node.index)
    if tags:
        text += f"\n#{' #'.join(tags)}"
    shape = _SHAPES.get(node.kind, "box")
    return f"n{node.index} [label={_quoted(text)}, shape={shape}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
