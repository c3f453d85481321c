"""States in pictures: the way back from the step that writes one to the step that reads it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from flodl.ir.graph import Literally, Ref, node_refs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flodl.ir.graph import GraphSpec, NodeSpec
    from flodl.visual.layout import Drawing

LANE = 12.0
CLEAR = 9.0  # how far from boxes the way runs, in the gap between two layers


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A state that one node writes and another one reads in the next call."""

    writer: int
    reader: int
    name: str


def carried_states(spec: GraphSpec) -> tuple[Carried, ...]:
    """Return the states of a description, each with the nodes that read and write it.

    An attribute that a flow reads and sets is a state, too: `self.h = self.cell(x, self.h)` goes
    from the cell back to itself.
    """
    return (*_states(spec), *_attributes(spec))


def _attributes(spec: GraphSpec) -> Iterator[Carried]:
    """Yield the attributes that are read before they are set; the value goes to the users of the old one."""
    readers = {
        (node.args[0], node.target): node.index for node in spec.nodes if node.kind == "attribute"
    }
    for node in spec.nodes:
        if node.kind != "setattr" or (node.args[0], node.target) not in readers:
            continue
        read = readers[node.args[0], node.target]
        value = node.args[1]
        if isinstance(value, Ref) and read < node.index:
            users = (each.index for each in spec.nodes if read in node_refs(each))
            yield from (
                Carried(writer=value.node, reader=user, name=node.target) for user in users
            )


def _states(spec: GraphSpec) -> tuple[Carried, ...]:
    writers = {_name(node): node.index for node in spec.nodes if _is(node, "write_state_")}
    return tuple(
        Carried(writer=writers[_name(node)], reader=node.index, name=_name(node))
        for node in spec.nodes
        if _is(node, "read_state_") and _name(node) in writers
    )


def _is(node: NodeSpec, target: str) -> bool:
    return node.kind == "function" and node.target == target


def _name(node: NodeSpec) -> str:
    name = node.args[1]
    return str(name.value) if isinstance(name, Literally) else ""


def corners(drawing: Drawing, number: int) -> tuple[tuple[float, float], ...]:
    """Return x and y of the corners of a way back: out behind its layer, back in a lane, in from before."""
    link = drawing.scene.carried[number]
    source, target = drawing.boxes[link.source], drawing.boxes[link.target]
    row = drawing.row_of[link.source]
    behind = drawing.tops[row] + drawing.heights[row] + CLEAR
    before = drawing.tops[drawing.row_of[link.target]] - CLEAR
    lane = LANE * number + LANE / 2
    (left, width), (begin, length) = drawing.across(source), drawing.along(source)
    (edge, extent), (first, _) = drawing.across(target), drawing.along(target)
    out, back = left + width / 2, edge + min(extent / 4, 14.0)
    corners = (
        (out, begin + length),
        (out, behind),
        (lane, behind),
        (lane, before),
        (back, before),
        (back, first),
    )
    return tuple(drawing.point(*corner) for corner in corners)
