"""Where a pass leaves its plan: a value that Python asked for was another one than when it was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from flodl.spec.graph import Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.graph.program import Program
    from flodl.spec.graph import NodeSpec


@final
class Divergence:
    """A pass that stopped at a question whose answer leads elsewhere.

    Attributes:
        program: the plan whose code ran.
        node: the node that was asked.
        values: what every node up to it has computed.
    """

    __slots__ = ("node", "program", "values")

    def __init__(self, program: Program, node: int, variables: Mapping[str, Any]) -> None:
        self.program = program
        self.node = node
        names = program.code.frames[node]
        self.values = {index: variables[name] for index, name in names.items()}

    @property
    def key(self) -> tuple[Program, int, str]:
        """Return what tells this way on from all others."""
        value = self.values[self.node]
        asked = (
            guard.presence for guard in self.program.spec.guards if guard.value == Ref(self.node)
        )
        # Of a tensor that was only asked to be there, no more is a way of its own.
        only_there = value is not None and all(asked)
        return self.program.origin, self.node, "there" if only_there else repr(value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The part of a pass that is done already, for the recording of another way on.

    Attributes:
        values: what the nodes computed.
        until: the last of those nodes.
        entry: what attributes were before the pass; see `LiveAttributes`.
        nodes: the steps of the plan that the pass has left.
    """

    values: Mapping[int, Any] = field(default_factory=dict)
    until: int = -1
    entry: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[NodeSpec, ...] = ()


NOTHING = Replay()
