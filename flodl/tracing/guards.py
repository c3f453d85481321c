"""Guards on traced values: Python reads a value, and the result becomes a guard of the recorded plan."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, final

import torch

from flodl.errors import FlowError
from flodl.graph.shape_nodes import entry_nodes, metadata_nodes, shaped_nodes
from flodl.ir.graph import GraphSpec, Guard, InputSpec, Literally, Ref, node_refs
from flodl.tracing.callsite import site_of, user_frame
from flodl.tracing.flow_value import UNKNOWN, NeedsValueError, flow_node, flow_value
from flodl.tracing.none_checks import is_asked, is_dropped
from flodl.tracing.readings import instruction_of, tensor_question

if TYPE_CHECKING:
    from types import FrameType

    from flodl.ir.graph import Site
    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer


# Conversions of numbers in Python, by the name that generated code uses.
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": bool, "int": int, "float": float, "operator.index": operator.index,
}  # fmt: skip
_KEEPING = frozenset({"operator", "item", "unpack"})


@final
class _Look(NamedTuple):
    """One look of Python's at a flow: which one, and at which instruction of which frame."""

    flow: Flow
    frame_id: int
    instruction: int
    is_poke: bool
    error: str = ""


@final
class Guards:
    """The guards of one recording."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer_of = weakref.ref(tracer)  # it owns us: a cycle would keep weights alive
        self._guards: list[tuple[Flow, object, Site]] = []
        self._presence: dict[int, tuple[bool, Site]] = {}
        self._looks: list[_Look] = []
        # Guards on inner sizes tie a plan to the shapes of its inputs; with many shapes they are forks.
        self.is_tied = True
        self._numbers: set[int] = set()
        self._seen = 0

    @property
    def _tracer(self) -> Tracer:
        tracer = self._tracer_of()
        assert tracer is not None
        return tracer

    def release(self) -> None:
        """Let go of the guarded flows."""
        self._guards.clear()
        self._looks.clear()

    def ask(self, flow: Flow, answer: Callable[[Any], Any], what: str) -> Any:
        """Evaluate a value for Python, and remember the result as a guard.

        Raises:
            FlowError: the value is a tensor, which a description cannot know.
        """
        frame = user_frame(2)
        self.settle(frame)
        value = flow_value(flow)
        if value is UNKNOWN:
            raise NeedsValueError
        if isinstance(value, torch.Tensor):
            name = getattr(answer, "__name__", "")
            if name not in _CONVERSIONS or not self._stands_for_number(flow):
                raise FlowError(tensor_question(site_of(frame), what))
            flow = self._number(flow, name)
            value = flow_value(flow)
        result = answer(value)
        self._guards.append((flow, value, site_of(frame)))
        return result

    def poke(self, flow: Flow) -> int:
        """Answer `__index__`; it becomes a guard unless a torch call at the same place uses the flow.

        torch's argument parser pokes an integer only to see that it is one, before it passes the call
        to us; `range(n)` pokes it in order to use it.
        """
        frame = user_frame(2)
        value: Any = flow_value(flow)
        self.settle(frame)
        # A value that is no integer, such as a whole size, has not been poked: torch sees its real type.
        answer = 1 if value is UNKNOWN else self._unheard(operator.index, value)
        # `torch.zeros(n, 3)` may poke a tensor; it is an error if no torch call explains it.
        is_tensor = isinstance(value, torch.Tensor) and not self._stands_for_number(flow)
        error = tensor_question(site_of(frame), "an integer") if is_tensor else ""
        self._looks.append(_Look(flow, *instruction_of(frame), is_poke=True, error=error))
        return answer

    def look(self, flow: Flow) -> None:
        """Note that the running instruction looked at the class of a flow; see `poke`."""
        frame = user_frame(2)
        self.settle(frame)
        self._looks.append(_Look(flow, *instruction_of(frame), is_poke=False))

    def was_poked_here(self, flow: Flow) -> bool:
        """Return True if the running instruction has already poked a flow."""
        frame_id, instruction = instruction_of(user_frame(2))
        return any(
            look.is_poke
            and look.flow is flow
            and (look.frame_id, look.instruction) == (frame_id, instruction)
            for look in self._looks
        )

    def see(self, node: int, value: object, frame: FrameType | None, variable: str = "") -> None:
        """Note whether the result of a step is `None`, if the flow may branch on that.

        Args:
            node: the step.
            value: its result.
            frame: the user's frame that called it.
            variable: the variable that gets the result, if one does.

        Raises:
            NeedsValueError: the flow branches on it, and a description without values does not know it.
        """
        matters = not is_dropped(frame, variable) if value is None else is_asked(frame, variable)
        if matters and not self._tracer.valued:
            raise NeedsValueError
        if matters and value is not UNKNOWN:
            self._presence[node] = value is not None, site_of(frame)

    def settle(self, frame: FrameType | None, *, used_here: bool = False) -> None:
        """Turn looks from other instructions than the running one into guards.

        With `used_here`, a torch call has explained those of the running instruction.
        """
        if not self._looks:
            return
        here = instruction_of(frame)
        pending, self._looks = self._looks, []
        running = [look for look in pending if (look.frame_id, look.instruction) == here]
        for look in pending:
            if look in running:
                continue
            if not self._tracer.valued:
                raise NeedsValueError
            flow = look.flow
            if isinstance(flow_value(flow), torch.Tensor):
                if look.error:
                    raise FlowError(look.error)
                flow = self._number(flow, "operator.index")
            site = self._tracer.nodes[flow_node(look.flow)].site
            self._guards.append((flow, flow_value(flow), site))
        self._looks = [] if used_here else running

    def _stands_for_number(self, flow: Flow) -> bool:
        """Return True if a tensor is an argument of one dimension or element, or computed from such.

        A caller may give a number, or numbers such as lengths, as a tensor; Python then reads
        it at its place in every call, as with `x.through(int)`.
        """
        nodes = self._tracer.nodes
        with self._tracer.paused():  # or these questions would be steps of the flow
            short = {
                name
                for name, value in self._tracer.tensor_inputs
                if value.dim() <= 1 or value.numel() == 1
            }
        for node in nodes[self._seen :]:
            refs = node_refs(node)
            if node.plain or (
                node.target in short
                if node.kind == "input"
                else node.kind in _KEEPING and refs and all(ref in self._numbers for ref in refs)
            ):
                self._numbers.add(node.index)
        self._seen = len(nodes)
        return flow_node(flow) in self._numbers

    def _unheard(self, function: Callable[[Any], Any], value: Any) -> Any:
        """Call a function whose own torch calls are none of the flow's."""
        tracer = self._tracer
        listening, tracer.listening = tracer.listening, False
        try:
            return function(value)
        finally:
            tracer.listening = listening

    def _number(self, flow: Flow, name: str) -> Flow:
        """Record that a tensor of one number is turned into that number."""
        tracer = self._tracer
        listening = tracer.listening
        result: Flow = tracer.step("function", name, (flow,), compute=_CONVERSIONS[name])
        tracer.listening = listening
        return result

    def guard_specs(self, spec: GraphSpec) -> tuple[Guard, ...]:
        """Return the answers as guards of a description."""
        metadata = metadata_nodes(spec)
        entry = entry_nodes(spec, metadata)
        shaped = shaped_nodes(spec, metadata, entry) if self.is_tied else frozenset()
        inside = _inside_of_steps(spec)
        found: dict[tuple[int, object], Guard] = {}
        for flow, value, site in self._guards:
            node = flow_node(flow)
            if node not in entry and node not in shaped and node in inside:
                message = (
                    f"{site}: the flow goes on by a value inside a `with` block whose context a step has "
                    "made, and that would be entered twice; ask before the block, or keep the block as a "
                    "callable: x.through(function)"
                )
                raise FlowError(message)
            found.setdefault(
                (node, repr(value)),
                Guard(
                    value=Ref(node),
                    expected=self._tracer.encoder.encode(
                        tuple(value) if isinstance(value, torch.Size) else value
                    ),
                    site=site,
                    at_entry=node in entry,
                    branches=node not in entry and node not in shaped,
                ),
            )
        return (*found.values(), *self._presence_guards(inside))

    def _presence_guards(self, inside: frozenset[int]) -> Iterator[Guard]:
        for node, (is_there, site) in self._presence.items():
            # A block whose context a step has made would be entered twice.
            if node not in inside:
                yield Guard(
                    value=Ref(node), expected=Literally(is_there), site=site,
                    at_entry=False, branches=True, presence=True,
                )  # fmt: skip

    def with_shapes(self, each: InputSpec) -> InputSpec:
        """Tie a plan to the shapes it was recorded with: it has a guard on an inner size."""
        shapes = [
            f"{expression}.shape == {tuple(value.shape)!r}"
            for expression, value in self._tracer.tensor_inputs
            if expression == each.name or expression.startswith(f"{each.name}[")
        ]
        return InputSpec(
            name=each.name, check=" and ".join([each.check, *shapes]).removeprefix(" and ")
        )


def _inside_of_steps(spec: GraphSpec) -> frozenset[int]:
    """Return the nodes inside a `with` block whose context is the value of a step."""
    opened: list[bool] = []
    found: set[int] = set()
    for node in spec.nodes:
        if node.kind == "enter":
            opened.append(not node.target)
        elif node.kind == "exit":
            opened.pop()
        if any(opened):
            found.add(node.index)
    return frozenset(found)
