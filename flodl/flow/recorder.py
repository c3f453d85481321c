"""Records what a flow does: every step becomes a node, and is carried out at once if values are known."""

from __future__ import annotations

import operator
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from flodl.errors import FlowError
from flodl.flow.callsite import assigned_names, site_of, user_frame
from flodl.flow.composites import keep
from flodl.flow.encoding import Encoder
from flodl.flow.handle import UNKNOWN, Flow
from flodl.flow.naming import Names
from flodl.flow.readings import (
    flow_node,
    flow_value,
    grad_modes,
    input_values,
    instruction_of,
    kind_name,
    tensor_question,
    unwrap,
)
from flodl.flow.torch_calls import record_torch_call
from flodl.flow.values import map_leaves
from flodl.graph.metadata import entry_nodes, metadata_nodes
from flodl.graph.notes import describe_failure
from flodl.spec.graph import (
    Arg,
    Branch,
    GraphSpec,
    Guard,
    InputSpec,
    Literally,
    NodeKind,
    NodeSpec,
    Ref,
    Site,
    Tag,
    TagGroup,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


@final
class _Active(threading.local):
    """The recorder that listens in this thread, if one does."""

    recorder: Recorder | None = None


_active = _Active()


@final
class NeedsValueError(BaseException):
    """A description without values was asked for one; internal, hence not an `Exception`."""


def current_recorder() -> Recorder | None:
    """Return the recorder that listens in this thread, if one does."""
    recorder = _active.recorder
    return recorder if recorder is not None and recorder.listening else None


@final
class _Look(NamedTuple):
    """One look of Python's at a flow: which one, and at which instruction of which frame."""

    flow: Flow
    frame_id: int
    instruction: int
    is_poke: bool


@final
class Recorder(TorchFunctionMode):
    """One recording of one flow of one module.

    With `valued`, flows carry real values and every step runs as it is recorded, so the recording is
    itself the first forward.  Without, steps are only described, and whatever asks for a value ends it.
    """

    def __init__(self, module: nn.Module, *, valued: bool, label: str = "") -> None:
        super().__init__()
        self.module = module
        self.valued = valued
        self.label = label
        self.listening = False
        self.encoder = Encoder(self)
        self.names = Names()
        self.nodes: list[NodeSpec] = []
        self.inputs: list[InputSpec] = []
        self.tensor_inputs: list[tuple[str, torch.Tensor]] = []
        self.tags: dict[str, tuple[int, Any]] = {}
        self.groups: list[TagGroup] = []
        self.carried: set[str] = set()
        self.branch: Branch | None = None
        self.pending_fork: tuple[Flow, Flow] | None = None
        self.forced_site: Site | None = None
        self._guards: list[tuple[Flow, object, Site]] = []
        self._looks: list[_Look] = []
        self._previous: Recorder | None = None
        self._modes = grad_modes()

    # ---- being the recorder of a thread -------------------------------------------------------

    def __enter__(self) -> Recorder:
        self._previous = _active.recorder
        _active.recorder = self
        self.listening = True
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exc: object) -> None:
        self.listening = False
        _active.recorder = self._previous
        super().__exit__(*exc)  # type: ignore[no-untyped-call]

    def release(self) -> None:
        """Let go of every flow and value, which refer to the recorder: memory is freed at once."""
        self.tags.clear()
        self.tensor_inputs.clear()
        self.pending_fork = None
        self._guards.clear()
        self._looks.clear()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record a call of the torch API; torch asks here for every one while we are entered."""
        if not self.listening:
            return func(*args, **(kwargs or {}))
        return record_torch_call(self, func, args, kwargs or {})

    # ---- nodes --------------------------------------------------------------------------------

    def input(self, expression: str, value: Any, known: type | None) -> Flow:
        """Add a node for an input, or for a part of one (`batch["x"]`)."""
        node = NodeSpec(
            index=len(self.nodes),
            kind="input",
            target=expression,
            name=self.names.preferred(expression),
        )
        self.nodes.append(node)
        if type(value) is torch.Tensor or isinstance(value, torch.Tensor):
            self.tensor_inputs.append((expression, value))
        return Flow(self, node.index, value, known)

    def step(
        self,
        kind: NodeKind,
        target: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        *,
        compute: Callable[..., Any] | None,
        name: str = "",
        extra: tuple[Arg, ...] = (),
        extra_named: dict[str, Arg] | None = None,
    ) -> Any:
        """Record one step and, with values, carry it out; `extra` and `extra_named` are for the node alone.

        Returns the flow of the result, or `None` where the step really returned `None`.
        """
        frame = user_frame(2)
        self.pending_fork = None
        self._settle(frame, used_here=True)
        self._require_same_modes(frame)
        kwargs = kwargs or {}
        names = assigned_names(frame) if self.forced_site is None else ()
        node = NodeSpec(
            index=len(self.nodes),
            kind=kind,
            target=target,
            args=(*(self.encoder.encode(arg) for arg in args), *extra),
            kwargs=(
                *((key, self.encoder.encode(arg)) for key, arg in kwargs.items()),
                *(extra_named or {}).items(),
            ),
            name=self.names.preferred(name)
            if name
            else self.names.counted(kind_name(kind, target)),
            site=self.forced_site or site_of(frame),
            branch=self.branch,
            variable=names[0] if len(names) == 1 else "",
        )
        self.nodes.append(node)
        value = self._compute(node, compute, args, kwargs) if self.valued else UNKNOWN
        return None if value is None else Flow(self, node.index, value, None)

    def _compute(
        self,
        node: NodeSpec,
        compute: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if compute is None:
            return UNKNOWN
        values = [map_leaves(arg, unwrap) for arg in args]
        named = {key: map_leaves(arg, unwrap) for key, arg in kwargs.items()}
        self.listening = False
        try:
            return compute(*values, **named)
        except Exception as error:
            known = input_values(args, kwargs)
            spec = GraphSpec(label=self.label, nodes=tuple(self.nodes), tags=self._tag_specs())
            error.add_note(describe_failure(spec, node, known, self.module))
            raise
        finally:
            self.listening = True

    def unpack(self, flow: Flow, count: int, names: tuple[str, ...] = ()) -> tuple[Any, ...]:
        """Record `a, b, ... = flow` with `count` targets and return the flows of the parts."""
        value = flow_value(flow)
        parts: tuple[Any, ...] = (UNKNOWN,) * count
        if self.valued:
            self.listening = False
            try:
                parts = tuple(value)
            finally:
                self.listening = True
        owner = self.step("unpack", str(count), (flow,), compute=None)
        site = self.nodes[-1].site
        results: list[Any] = []
        for position in range(count):
            node = NodeSpec(
                index=len(self.nodes),
                kind="item",
                target="",
                args=(Ref(flow_node(owner)), Literally(position)),
                name=self.names.counted("item"),
                site=site,
                branch=self.branch,
                variable=names[position]
                if position < len(names) and names[position] != "_"
                else "",
            )
            self.nodes.append(node)
            part = parts[position] if position < len(parts) else UNKNOWN
            results.append(None if part is None else Flow(self, node.index, part, None))
        return tuple(results)

    # ---- questions ----------------------------------------------------------------------------

    def ask(self, flow: Flow, answer: Callable[[Any], Any], what: str) -> Any:
        """Answer a question of Python's about a value, and remember the answer as a guard.

        Raises:
            FlowError: the value is a tensor, which a description cannot know.
        """
        frame = user_frame(2)
        self._settle(frame)
        value = flow_value(flow)
        if value is UNKNOWN:
            raise NeedsValueError
        if isinstance(value, torch.Tensor):
            raise FlowError(tensor_question(site_of(frame), what))
        result = answer(value)
        self._guards.append((flow, value, site_of(frame)))
        return result

    def poke(self, flow: Flow) -> int:
        """Answer `__index__`; it becomes a guard unless a torch call at the same place uses the flow.

        torch's argument parser pokes an integer only to see that it is one, before it hands the call
        to us; `range(n)` pokes it in order to use it.
        """
        frame = user_frame(2)
        value: Any = flow_value(flow)
        if isinstance(value, torch.Tensor):
            raise FlowError(tensor_question(site_of(frame), "an integer"))
        self._settle(frame)
        self._looks.append(_Look(flow, *instruction_of(frame), is_poke=True))
        return 1 if value is UNKNOWN else operator.index(value)

    def look(self, flow: Flow) -> None:
        """Note that the running instruction looked at the class of a flow; see `poke`."""
        frame = user_frame(2)
        self._settle(frame)
        self._looks.append(_Look(flow, *instruction_of(frame), is_poke=False))

    def was_poked_here(self, flow: Flow) -> bool:
        """Say whether the running instruction has already poked a flow."""
        frame_id, instruction = instruction_of(user_frame(2))
        return any(
            look.is_poke
            and look.flow is flow
            and (look.frame_id, look.instruction) == (frame_id, instruction)
            for look in self._looks
        )

    def _settle(self, frame: FrameType | None, *, used_here: bool = False) -> None:
        """Turn looks from other instructions than the running one into guards.

        With `used_here`, a torch call has explained those of the running instruction.
        """
        if not self._looks:
            return
        here = instruction_of(frame)
        pending, self._looks = self._looks, []
        for look in pending:
            if (look.frame_id, look.instruction) == here:
                if not used_here:
                    self._looks.append(look)
            elif not self.valued:
                raise NeedsValueError
            else:
                node = flow_node(look.flow)
                self._guards.append((look.flow, flow_value(look.flow), self.nodes[node].site))

    def _require_same_modes(self, frame: Any) -> None:
        if grad_modes() != self._modes:
            message = (
                f"{site_of(frame)}: a flow cannot switch gradient or autocast modes; put the part that "
                "runs under another mode into a function and call it with x.through(function)"
            )
            raise FlowError(message)

    # ---- tags and the end ---------------------------------------------------------------------

    def tag(self, name: str, flow: Flow) -> None:
        """Name the value of a flow."""
        if name in self.tags and self.tags[name][0] != flow_node(flow):
            place = site_of(user_frame(2))
            message = (
                f"{place}: tag `{name}` is already the name of another value; choose another name"
            )
            raise FlowError(message)
        self.tags[name] = (flow_node(flow), flow)
        if name in self.carried:
            keep(flow, name)

    def _tag_specs(self) -> tuple[Tag, ...]:
        return tuple(
            Tag(name=name, node=node, internal=name.startswith("_"))
            for name, (node, _) in self.tags.items()
        )

    def finish(self, output: Any, training: bool | None = None) -> GraphSpec:
        """Return the description of everything recorded, with its output and the mode it holds for."""
        self._settle(None)
        unwritten = self.carried - set(self.tags)
        if unwritten:
            names = "`, `".join(sorted(unwritten))
            message = (
                f"the flow reads the previous `{names}`, but tags no value so; add .tag(name)"
            )
            raise FlowError(message)
        encoded = self.encoder.encode(output)
        spec = GraphSpec(
            label=self.label,
            inputs=tuple(self.inputs),
            nodes=tuple(self.nodes),
            output=encoded,
            tags=self._tag_specs(),
            groups=tuple(self.groups),
        )
        guards = self._guard_specs(spec)
        inputs = spec.inputs
        if any(not guard.at_entry for guard in guards):
            inputs = tuple(self._with_shapes(each) for each in inputs)
        return replace(spec, inputs=inputs, guards=guards, training=training)

    def _guard_specs(self, spec: GraphSpec) -> tuple[Guard, ...]:
        entry = entry_nodes(spec, metadata_nodes(spec))
        found: dict[tuple[int, object], Guard] = {}
        for flow, value, site in self._guards:
            node = flow_node(flow)
            found.setdefault(
                (node, repr(value)),
                Guard(
                    value=Ref(node),
                    expected=self.encoder.encode(value),
                    site=site,
                    at_entry=node in entry,
                ),
            )
        return tuple(found.values())

    def _with_shapes(self, each: InputSpec) -> InputSpec:
        """Tie a plan to the shapes it was recorded with: it asked a size that comes from inside."""
        shapes = [
            f"{expression}.shape == {tuple(value.shape)!r}"
            for expression, value in self.tensor_inputs
            if expression == each.name or expression.startswith(f"{each.name}[")
        ]
        return InputSpec(
            name=each.name, check=" and ".join([each.check, *shapes]).removeprefix(" and ")
        )
