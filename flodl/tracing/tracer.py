"""The tracer of flows: every step becomes a node, and is carried out at once if values are known."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import torch
from torch import nn, overrides
from torch.overrides import TorchFunctionMode

from flodl.errors import FlowError
from flodl.graph.error_notes import describe_failure
from flodl.graph.side_exits import NOTHING, Replay
from flodl.ir.graph import (
    Arg,
    Branch,
    GraphSpec,
    InputSpec,
    Literally,
    NodeKind,
    NodeSpec,
    Ref,
    Site,
    Tag,
    TagGroup,
)
from flodl.tracing.active import ACTIVE
from flodl.tracing.callsite import assigned_names, site_of, user_frame
from flodl.tracing.effects.closures import Closures
from flodl.tracing.effects.container_changes import may_change
from flodl.tracing.effects.container_mutation import Handed, follow, handed, replayed, step_of
from flodl.tracing.effects.object_mutation import OwnObjects
from flodl.tracing.flow_value import UNKNOWN, NeedsValueError, flow_node, flow_value, unwrap
from flodl.tracing.guards import Guards
from flodl.tracing.isinstance_checks import require_no_type_of_flow
from flodl.tracing.naming import Names
from flodl.tracing.node_args import Encoder
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import PLAIN_KINDS, map_leaves
from flodl.tracing.readings import grad_modes, input_values, kind_name, without_place
from flodl.tracing.reads.cached_functions import CachedFunctions
from flodl.tracing.reads.guard_values import class_attribute
from flodl.tracing.reads.live_attributes import MISSING, LiveAttributes
from flodl.tracing.reads.plain_results import plain_results
from flodl.tracing.reads.sources import Sources
from flodl.tracing.torch_function import record_torch_call
from flodl.vocabulary.control_flow import keep
from flodl.vocabulary.stages import run_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from flodl.vocabulary.stages import Stage

# Torch's stack of modes has no public way to leave one for a while, and no types.
_MODES: Any = overrides


@final
class Tracer(TorchFunctionMode):
    """One recording of one flow of one module.

    With `valued`, flows carry real values and every step runs as it is recorded, so the recording is
    itself the first forward.  Without, steps are only described, and any need for a value ends the recording.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        valued: bool,
        label: str = "",
        live: frozenset[str] = frozenset(),
        replay: Replay = NOTHING,
    ) -> None:
        super().__init__()
        self._outside = id(user_frame(2))  # the frame that calls the flow
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
        self.guards = Guards(self)
        self.closures = Closures(self)
        self._changed: list[Handed] = []
        self._previous: Tracer | None = None
        self.modes = grad_modes()
        self.scopes = 0
        self.replay = replay
        self.attributes = LiveAttributes(self, live, replay.entry)
        self.cached = CachedFunctions(module)
        self.sources = Sources(self, module)

    # ---- being the tracer of a thread -------------------------------------------------------

    def __enter__(self) -> Tracer:
        self._previous = ACTIVE.tracer
        ACTIVE.tracer = self
        self.listening = True
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exc: object) -> None:
        self.listening = False
        ACTIVE.tracer = self._previous
        super().__exit__(*exc)  # type: ignore[no-untyped-call]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not listen until the block ends: its operations are no part of the flow."""
        before, self.listening = self.listening, False
        try:
            yield
        finally:
            self.listening = before

    def through(
        self, stage: Stage, value: Any, extra: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Run a stage on a value of the flow, as `Flow.through` does for a single one."""
        return run_stage(self, stage, value, extra, named)

    def release(self) -> None:
        """Let go of every flow and value, which refer to the tracer: memory is freed at once."""
        self.tags.clear()
        self.tensor_inputs.clear()
        self.pending_fork = None
        self.guards.release()
        self.closures.release()
        self.attributes.release()
        self.sources.release()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record a call of the torch API; torch dispatches every one to this method while we are entered."""
        if not self.listening:
            return func(*args, **(kwargs or {}))
        if self.cached.running() is not None and not input_values(args, kwargs or {}):
            return func(*args, **(kwargs or {}))
        return record_torch_call(self, func, args, kwargs or {})

    # ---- reads and writes of attributes --------------------------------------------------------

    @property
    def is_portable(self) -> bool:
        """Whether the plan may serve a copy of the module: nothing in it belongs to this one alone."""
        is_bound = self.sources.comparisons.has_addresses or self.cached.has_any
        return self.encoder.portable and not is_bound

    def read_attribute(self, owner: Any, name: str, plain: Callable[[Any, str], Any]) -> Any:
        """Read an attribute for the flow: live where the flow changes it, else guarded.

        Args:
            owner: the traced module, or an object that it leads to.
            name: the attribute.
            plain: the `__getattribute__` of its class.

        Raises:
            AttributeError: there is none.
        """

        def read() -> Any:
            try:
                return plain(owner, name)
            except AttributeError:
                fallback = class_attribute(type(owner), "__getattr__")
                if fallback is None:
                    raise
                return fallback(owner, name)

        if owner is self.module and name in self.attributes.names:
            self.listening = False
            try:
                value = read()
            except AttributeError:
                value = MISSING
            finally:
                self.listening = True
            return self.attributes.read(name, value)
        return self.sources.read(owner, name, read)

    def write_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Record that the flow sets an attribute of an object which it has not made."""
        self.step(
            "setattr", name, (owner, value), compute=lambda each, new: setattr(each, name, new)
        )
        self.sources.write(owner, name, value)

    # ---- nodes --------------------------------------------------------------------------------

    def input(self, expression: str, value: Any, known: type | None) -> Flow:
        """Add a node for an input, or for a part of one (`batch["x"]`)."""
        node = NodeSpec(
            index=len(self.nodes),
            kind="input",
            target=expression,
            name=self.names.preferred(expression),
            plain=type(value) in PLAIN_KINDS,
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
        self.cached.require_outside()
        frame = user_frame(2)
        self.pending_fork = None
        self.guards.settle(frame, used_here=True)
        self._require_same_modes(frame)
        theirs = (*args, *(kwargs or {}).values())
        args = tuple(self.closures.lifted(arg) for arg in args)
        kwargs = {key: self.closures.lifted(arg) for key, arg in (kwargs or {}).items()}
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
        value: Any = UNKNOWN
        if node.index <= self.replay.until:
            self._changed = replayed(self.replay, node, theirs)
            value = self.replay.values.get(step_of(self.replay, node))
        elif self.valued:
            value = self._compute(node, compute, args, kwargs, theirs)
        if type(value) in PLAIN_KINDS:
            self.nodes[node.index] = replace(node, target=without_place(target), plain=True)
        index = node.index
        if self._changed:
            changed, self._changed = self._changed, []
            index = follow(self, changed)
        if _gives_value(node):
            self.guards.see(index, value, frame, node.variable)
        return self._handed(Flow(self, index, value, None), value, frame)

    def _handed(self, flow: Flow, value: Any, frame: FrameType | None) -> Any:
        """Return what the flow gets for the result of a step: mostly a proxy."""
        if value is None:
            return None
        if frame is None or id(frame) == self._outside:
            return flow
        require_no_type_of_flow(frame)
        plain = plain_results(frame.f_code)
        if plain and value is UNKNOWN and not self.valued:
            raise NeedsValueError
        if tuple in plain and _comes_apart(value):
            return self._taken_apart(flow)
        if dict in plain and isinstance(value, Mapping):
            message = (
                f"{site_of(frame)}: a pattern such as {{'key': value}} cannot match the result of a step; "
                "take the items from it by their keys"
            )
            raise FlowError(message)
        if type(value) not in plain:
            return flow
        return self.guards.ask(flow, lambda known: known, "the value")

    def _taken_apart(self, flow: Flow) -> Any:
        """Return a tuple or list of proxies in the place of the proxy of one; inner ones as well."""
        kind, parts = type(flow_value(flow)), []
        for each in flow:
            inner = flow_value(each) if type(each) is Flow else None
            if type(inner) is torch.Size:
                parts.append(self.guards.ask(each, lambda known: known, "the value"))
            else:
                parts.append(self._taken_apart(each) if _comes_apart(inner) else each)
        return kind._make(parts) if "_make" in dir(kind) else kind(parts)

    def _compute(
        self,
        node: NodeSpec,
        compute: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        theirs: tuple[Any, ...],
    ) -> Any:
        if compute is None:
            return UNKNOWN
        # Neither what the step computes is a part of the flow, nor what is compared before and after it.
        with self.paused():
            values = [map_leaves(arg, unwrap) for arg in args]
            named = {key: map_leaves(arg, unwrap) for key, arg in kwargs.items()}
            containers = handed(theirs, values, named)
            objects = OwnObjects(compute, theirs, (*values, *named.values()))
            try:
                with _without_mode(self):
                    value = compute(*values, **named)
            except Exception as error:
                known = input_values(args, kwargs)
                spec = GraphSpec(label=self.label, nodes=tuple(self.nodes), tags=self._tag_specs())
                error.add_note(describe_failure(spec, node, known, self.module))
                raise
            changes = bool(containers) and may_change(compute)
            self._changed = [each for each in containers if changes or each.is_other()]
            objects.require_unchanged(
                (self.encoder.constants, args, kwargs, theirs, values, named)
            )
            return value

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
        frame = user_frame(2)
        self.step("unpack", str(count), (flow,), compute=None)
        owner = len(self.nodes) - 1
        site = self.nodes[-1].site
        results: list[Any] = []
        for position in range(count):
            node = NodeSpec(
                index=len(self.nodes),
                kind="item",
                target="",
                args=(Ref(owner), Literally(position)),
                name=self.names.counted("item"),
                site=site,
                branch=self.branch,
                variable=names[position]
                if position < len(names) and names[position] != "_"
                else "",
            )
            self.nodes.append(node)
            part = parts[position] if position < len(parts) else UNKNOWN
            part = self.replay.values.get(node.index, part)
            given = names[position] if position < len(names) else ""
            self.guards.see(node.index, part, frame, given)
            results.append(None if part is None else Flow(self, node.index, part, None))
        return tuple(results)

    def _require_same_modes(self, frame: Any) -> None:
        if grad_modes() != self.modes:
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

    def _checks(self) -> tuple[str, ...]:
        encoder = self.encoder
        nodes = frozenset(id(encoder.constants[key]) for key in encoder.in_nodes)
        checks = (*self.attributes.checks, *self.sources.checks_without(nodes))
        return tuple(dict.fromkeys(checks))

    def finish(self, output: Any, training: bool | None = None) -> GraphSpec:
        """Return the description of everything recorded, with its output and the mode it holds for."""
        self.guards.settle(None)
        self.attributes.settle()
        self.closures.settle()
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
            checks=self._checks(),
        )
        guards = self.guards.guard_specs(spec)
        inputs = spec.inputs
        if any(not guard.at_entry and not guard.branches for guard in guards):
            inputs = tuple(self.guards.with_shapes(each) for each in inputs)
        return replace(spec, inputs=inputs, guards=guards, training=training)


@contextmanager
def _without_mode(mode: Tracer) -> Iterator[None]:
    """Take the tracer's mode off: under a mode, torch leaves fast paths such as that of attention."""
    is_on_top = _MODES._get_current_function_mode() is mode
    if is_on_top:
        _MODES._pop_mode()
    try:
        yield
    finally:
        if is_on_top:
            _MODES._push_mode(mode)


def _comes_apart(value: Any) -> bool:
    """Return True for a list, a tuple or a tuple with names for its items, of Python or of torch."""
    kind = type(value)
    return kind in (tuple, list) or (
        issubclass(kind, tuple) and not {"_make", "n_sequence_fields"}.isdisjoint(dir(kind))
    )


def _gives_value(node: NodeSpec) -> bool:
    """Return True if a step has a result that Python may ask for `None`.

    A block that torch names, `with torch.no_grad():`, has none, though the helper around it has.
    """
    is_block = node.kind == "exit" or (node.kind == "enter" and bool(node.target))
    return not is_block and node.kind not in ("setattr", "operator", "unpack")
