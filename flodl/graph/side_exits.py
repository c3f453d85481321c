"""Side exits: a pass leaves its plan where a guarded value differs from the recorded one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from flodl.ir.graph import Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.graph.compiled_plan import CompiledPlan
    from flodl.ir.graph import NodeSpec


@final
class SideExit:
    """A pass that stopped at a branch guard that failed.

    Attributes:
        program: the plan whose code ran.
        node: the guarded node.
        values: the values of all nodes up to it.
    """

    __slots__ = ("node", "program", "values")

    def __init__(self, program: CompiledPlan, node: int, variables: Mapping[str, Any]) -> None:
        self.program = program
        self.node = node
        names = program.code.frames[node]
        self.values = {index: variables[name] for index, name in names.items()}

    @property
    def key(self) -> tuple[CompiledPlan, int, str]:
        """Return the key of this path, distinct from all others."""
        value = self.values[self.node]
        asked = (
            guard.presence for guard in self.program.spec.guards if guard.value == Ref(self.node)
        )
        # A tensor that was only compared with `None` needs one path for all its values.
        only_there = value is not None and all(asked)
        return self.program.origin, self.node, "there" if only_there else repr(value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The part of a pass that is done already, for the recording of another way on.

    Attributes:
        values: the values of the nodes.
        until: the last of those nodes.
        entry: the attributes before the pass; see `LiveAttributes`.
        nodes: the steps of the plan that the pass has left.
    """

    values: Mapping[int, Any] = field(default_factory=dict)
    until: int = -1
    entry: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[NodeSpec, ...] = ()


NOTHING = Replay()
