"""`FlowModule`: a module class whose `flow` describes what its generated `forward` does."""

from __future__ import annotations

import copy
from abc import ABCMeta
from contextlib import contextmanager
from dataclasses import replace
from inspect import isfunction
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, final

import torch
from torch import nn

from flodl.errors import FlowError, GraphError
from flodl.graph.compiled_plan import CompiledPlan
from flodl.graph.plan_cache import PlanCache
from flodl.graph.planned_module import PlannedModule, offered, set_plans
from flodl.graph.side_exits import NOTHING, Replay, SideExit
from flodl.graph.texts import code_of, spec_of
from flodl.inspect.pictures import notebook_svg
from flodl.inspect.view import NAMES
from flodl.module.generate_forward import install_definitions, layer_behind
from flodl.tracing.active import current_tracer
from flodl.tracing.call_inputs import Definition, admit, describe_parameter, tied
from flodl.tracing.context_managers import recorded_scopes
from flodl.tracing.effects.mutated_attributes import live_names
from flodl.tracing.effects.purity import is_describable
from flodl.tracing.flow_value import NeedsValueError, unwrap
from flodl.tracing.fx_interop import is_symbolic, run_symbolically
from flodl.tracing.patching import intercept_calls
from flodl.tracing.pytrees import leaves, map_leaves
from flodl.tracing.readings import error_of_proxy
from flodl.tracing.reads.process_state import traced_process_state
from flodl.tracing.reads.sources import traced_reads
from flodl.tracing.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flodl.ir.graph import GraphSpec, NodeSpec

    Method = TypeVar("Method", bound=Callable[..., Any])


# From so many plans on, a guard on an inner size no longer ties a plan to the shapes of its inputs.
MANY_PLANS = 8
_TEXTS = {"spec": spec_of, "code": code_of}
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@final
class FlowMeta(ABCMeta):
    """Describes a new `FlowModule` once its constructor is done, so that a compiler may call it first."""

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any
    ) -> None:
        """Leave a class with abstract methods constructible where plain modules are: below no `ABC`."""
        super().__init__(name, bases, namespace, **kwargs)
        strict = (each for each in cls.__mro__ if isinstance(each, ABCMeta))
        if all(isinstance(each, FlowMeta) for each in strict):
            cls.__abstractmethods__ = frozenset()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Construct an instance and describe its flow, where that needs no values."""
        module = super().__call__(*args, **kwargs)
        if isinstance(module, FlowModule):
            describe(module)
        return module


class FlowModule(PlannedModule, metaclass=FlowMeta):
    """A module that describes its forward: subclass it, build submodules in `__init__`, write `flow`.

    `forward` is generated, with the parameters of `flow`.  Values that `flow` tests in plain Python
    (the training flag, whether an input is `None`, a size) come from the call at hand and become guards
    of the plan; another combination traces another plan.  Everything that `flow` reads from objects,
    globals and functions is guarded as well, see `flodl.tracing.reads.sources`.

    A layer or container of torch is extended by `class Block(nn.Sequential, FlowModule)`, in either order:
    where the class has no `flow`, the forward of the layer is what it describes.

    Example:
        >>> import torch
        >>> from flodl import Flow, FlowModule
        >>> class Classifier(FlowModule):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.hidden = torch.nn.Linear(4, 8)
        ...         self.head = torch.nn.Linear(8, 2)
        ...     def flow(self, x: Flow) -> Flow:
        ...         return x.through(self.hidden).through(torch.relu).tag("features").through(self.head)
        >>> Classifier()(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    _flodl_definitions: dict[str, Definition] = {}

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the object with its plans: a constructor may call what it builds."""
        made = super().__new__(cls)
        set_plans(made, {key: _new_plans(each) for key, each in cls._flodl_definitions.items()})
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Construct the layer of torch among the later bases; without one, take no arguments."""
        layer_behind(type(self), FlowModule).__init__(self, *args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Generate `forward` from `flow`, and prepare every `@subflow` method."""
        super().__init_subclass__(**kwargs)
        cls._flodl_definitions = install_definitions(cls, FlowModule)
        cls._flodl_runs_plans = _definition_of(cls) is not None

    # ---- recording ----------------------------------------------------------------------------

    def _flodl_programs(self) -> tuple[CompiledPlan, ...]:
        definition = main_definition(self)
        return self._flodl_plans[definition.key].programs if definition is not None else ()

    @offered
    def describe(self) -> bool:
        """Describe the flow without values, in training and evaluation mode, where that is possible.

        Returns:
            Whether the flow is described; if not, the first call records it.
        """
        return describe(self)

    @offered
    def build(self, *example: Any, **named: Any) -> Self:
        """Record the flow for example inputs, without keeping the result.

        Needed only before `torch.compile(fullgraph=True)` or `torch.export` is the first to call a flow
        whose source is not there, or that uses `previous`.  Runs one forward under `torch.no_grad()`.

        Args:
            *example: example inputs, as for a call.
            **named: keyword inputs.

        Returns:
            The module itself.

        Example:
            >>> import torch
            >>> from flodl import FlowModule
            >>> class Rows(FlowModule):
            ...     def flow(self, x):
            ...         return x.reshape(len(x), -1)
            >>> rows = Rows()
            >>> rows.describe()
            False
            >>> "reshape" in rows.build(torch.ones(2, 3, 4)).code
            True
        """
        with torch.no_grad():
            self(*example, **named)
        return self

    @offered
    def rebuild(self) -> Self:
        """Forget all recorded plans; the next call records again.  Returns the module itself."""
        rebuild(self)
        return self

    def _repr_svg_(self) -> str | None:
        """Return the picture for notebooks, nothing before the flow is recorded."""
        return notebook_svg(self)

    # ---- attributes ---------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; plans that may have read the old value are forgotten."""
        tracer = current_tracer()
        if tracer is not None and tracer.module is self:
            tracer.attributes.write(name, value)
            return
        before = _current(self, name)
        super().__setattr__(name, value)
        if _is_live(type(self), name):
            return
        if isinstance(value, nn.Module) or isinstance(before, nn.Module):
            _forget(self)
        elif not _is_same_kind(before, value):
            # Guards tell values of one kind apart; nodes were made for the kind that was read.
            for plans in self._flodl_plans.values():
                if name in plans.names:
                    plans.clear()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        _forget(self)

    def __getattr__(self, name: str) -> Any:
        """Find a parameter, buffer or submodule; name the view for a method that only graphs have."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name in _TEXTS:  # Python asks here because there is no plan yet: say that
                return _TEXTS[name](self)
            if name in NAMES:
                message = (
                    f"{type(self).__name__!r} object has no attribute {name!r}: write "
                    f"flodl.view(module).{name}"
                )
                raise AttributeError(message, name=name, obj=self) from None
            raise

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Add a child module; plans recorded without it are forgotten."""
        super().add_module(name, module)
        _forget(self)

    # ---- copying ------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_flodl_plans", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]
        definitions = type(self)._flodl_definitions
        set_plans(self, {key: _new_plans(each) for key, each in definitions.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> FlowModule:
        """Copy the module; plans that mention no object of the original come along."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        for key, plans in self._flodl_plans.items():
            for program in plans.programs:
                if program.portable:
                    made._flodl_plans[key].add(program)
        return made


def main_definition(module: FlowModule) -> Definition | None:
    """Return the definition that `forward` runs, `None` where a subclass wrote its own forward."""
    return _definition_of(type(module))


def _definition_of(cls: type[FlowModule]) -> Definition | None:
    forward = cls.forward
    marker = vars(forward).get("__flodl_definition__") if isfunction(forward) else None
    return marker if isinstance(marker, Definition) else None


def _forget(module: FlowModule) -> None:
    for plans in vars(module).get("_flodl_plans", {}).values():
        plans.clear()


def subflow(method: Method) -> Method:
    """Mark a method that describes a part of the flow and is also called with tensors from outside.

    Inside a flow it records; outside it computes, and its steps are recorded and replayed like those
    of `flow`.

    Example:
        >>> import torch
        >>> from flodl import Flow, FlowModule, subflow
        >>> class Net(FlowModule):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.body, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
        ...     @subflow
        ...     def features(self, x: Flow) -> Flow:
        ...         return x.through(self.body).through(torch.relu)
        ...     def flow(self, x: Flow) -> Flow:
        ...         return self.features(x).through(self.head)
        >>> Net().features(torch.ones(1, 4)).shape
        torch.Size([1, 8])
    """
    vars(method)["__flodl_subflow__"] = True
    return method


def _current(module: nn.Module, name: str) -> Any:
    own = vars(module)
    tables = (own.get("_parameters"), own.get("_buffers"), own.get("_modules"), own)
    return next((table[name] for table in tables if table is not None and name in table), None)


def _is_same_kind(before: Any, value: Any) -> bool:
    """Return True if the guards of the plans tell an attribute's new value from the old one."""
    return type(before) is type(value) or (
        isinstance(before, torch.Tensor) and isinstance(value, torch.Tensor)
    )


def _new_plans(definition: Definition) -> PlanCache:
    def record(module: FlowModule, *inputs: Any) -> Any:
        if torch.compiler.is_compiling() and _is_kept_from_dynamo():
            return _UNTRACED[0](module, definition, inputs)
        if is_symbolic(inputs):
            programs = module._flodl_plans[definition.key].programs
            return run_symbolically(module, definition, programs, inputs)
        return record_call(module, definition, inputs)

    def bridge(
        module: FlowModule, inputs: tuple[Any, ...], left: SideExit
    ) -> tuple[CompiledPlan, Any]:
        if torch.compiler.is_compiling() and _is_kept_from_dynamo():
            made: tuple[CompiledPlan, Any] = _UNTRACED[1](module, definition, inputs, left)
            return made
        return record_bridge(module, definition, inputs, left)

    # Tracing compilers cannot look into a recording, for a flow without a plain body; torch.compile breaks
    # the graph here and fullgraph=True reports this text.  (torch.compiler.disable would import all of
    # torch._dynamo.)
    for function in (record, bridge):
        vars(function)["_torchdynamo_disable"] = True
        vars(function)["_torchdynamo_disable_msg"] = (
            "the flow is not recorded for these inputs yet; call the module once, or build(example_input)"
        )
    return PlanCache(record, definition.inputs, bridge)


# `record_call` and `record_bridge` as Dynamo leaves them alone: it also looks at the functions that run
# between two compiled graphs, and would trace the recording itself.
_UNTRACED: list[Callable[..., Any]] = []


def _is_kept_from_dynamo() -> bool:
    """Fill `_UNTRACED` where Dynamo is there: torch.compiler.disable imports it."""
    if not _UNTRACED:
        disable: Any = torch.compiler.disable
        _UNTRACED.extend((disable(record_call), disable(record_bridge)))
    return True


vars(_is_kept_from_dynamo)["_dynamo_marked_constant"] = True


def _for_mode(spec: GraphSpec, training: bool) -> GraphSpec:
    return replace(spec, training=training)


def _live(kind: type[FlowModule]) -> frozenset[str]:
    """Return the attributes that the flows of a class change: no plan knows their values."""
    own = kind.__dict__.get("_flodl_live_names")
    if own is None:
        definitions = kind._flodl_definitions.values()
        own = frozenset().union(*(live_names(each.function, kind) for each in definitions))
        type.__setattr__(kind, "_flodl_live_names", own)
    return own


def _is_live(kind: type[FlowModule], name: str) -> bool:
    """Return True if a flow of a class changes an attribute itself."""
    return name in _live(kind)


# Dynamo runs such a function and does not trace it, see `flodl.module.traced_call`.
vars(_is_live)["_dynamo_marked_constant"] = True


def _with_children(spec: GraphSpec, module: nn.Module) -> GraphSpec:
    """Tie the plan of a container to the number of its children: it may have run all of them."""
    if not isinstance(module, _CONTAINERS) or not spec.inputs:
        return spec
    first, *rest = spec.inputs
    check = f"{first.check} and len(self._modules) == {len(module._modules)}"
    return replace(spec, inputs=(replace(first, check=check.removeprefix(" and ")), *rest))


@contextmanager
def _tracing(tracer: Tracer, definition: Definition) -> Iterator[None]:
    """Let the tracer listen in this thread until the block ends."""
    with (
        tracer,
        intercept_calls(),
        recorded_scopes(),
        traced_process_state(),
        traced_reads(tracer, definition.function),
    ):
        yield


def describe(module: Any) -> bool:
    """Describe the flow of a module without values, where that is possible; see `FlowModule.describe`."""
    definition = main_definition(module)
    if definition is None or module._flodl_plans[definition.key].programs:
        return definition is not None
    kind = type(module)
    owners = tuple(dict.fromkeys(map(type, module.modules())))
    if _live(kind) or not is_describable(definition.function, owners):
        return False
    first = _described(module, definition, training=True)
    if first is None:
        return False
    both = [first]
    if first.mode_is_read:
        second = _described(module, definition, training=False)
        if second is None:
            return False
        if second.spec != first.spec:
            both.append(second)
    plans = module._flodl_plans[definition.key]
    for training, each in zip((True, False), both, strict=False):
        held = each.spec if len(both) == 1 else _for_mode(each.spec, training)
        program = CompiledPlan(held, each.constants, definition.title)
        program.names = each.names
        plans.add(program)
    return True


def rebuild(module: Any) -> None:
    """Forget all recorded plans of a flow module."""
    _forget(module)
    describe(module)


@final
class _Description(NamedTuple):
    """A flow in one mode; where it does not read the mode, in both.

    Attributes:
        spec: the graph.
        constants: the objects that it mentions, by name.
        names: the attributes that it read.
        mode_is_read: whether it may be another one in the other mode.
    """

    spec: GraphSpec
    constants: dict[str, object]
    names: frozenset[str]
    mode_is_read: bool


def _described(
    module: FlowModule, definition: Definition, *, training: bool
) -> _Description | None:
    """Describe a flow in one mode without values; `None` if it needs any."""
    before = module.training
    module.__dict__["training"] = training
    tracer = Tracer(module, valued=False)
    try:
        with _tracing(tracer, definition):
            parameters = definition.signature.parameters.values()
            named = zip(definition.inputs, parameters, strict=True)
            values = tuple(describe_parameter(tracer, name, each) for name, each in named)
            output = definition.call(module, values)
        spec = _with_children(tracer.finish(output), module)
    except NeedsValueError:
        return None
    except Exception:  # whatever is wrong shows itself, with values, at the first call
        return None
    finally:
        module.__dict__["training"] = before
        tracer.release()
    if not tracer.is_portable:
        return None
    return _Description(
        spec=spec,
        constants=tracer.encoder.constants,
        names=frozenset(tracer.sources.names),
        mode_is_read=tracer.sources.hooks.mode_is_read,
    )


def record_call(module: FlowModule, definition: Definition, inputs: tuple[Any, ...]) -> Any:
    """Run a flow on real values, record it as a new plan, and return its result.

    Raises:
        FlowError: the flow needs something that a description cannot give.
    """
    plans = module._flodl_plans[definition.key]  # part of the same class's machinery
    is_tied = len(plans.programs) < MANY_PLANS
    program, result = _record(module, definition, inputs, NOTHING, is_tied)
    plans.add(program)
    return result


def record_bridge(
    module: FlowModule, definition: Definition, inputs: tuple[Any, ...], left: SideExit
) -> tuple[CompiledPlan, Any]:
    """Record a bridge after a side exit, and return the plan of the whole and the result.

    Values that the pass has already computed are not computed again.

    Raises:
        FlowError: the flow, run again, does something else before it comes to the same place.
    """
    replay = Replay(
        values=left.values,
        until=left.node,
        entry=left.program.entry,
        nodes=left.program.spec.nodes,
    )
    is_tied = left.program.is_tied
    program, result = _record(module, definition, inputs, replay, is_tied)
    done, again = left.program.spec.nodes, program.spec.nodes
    if [_shape_of(each) for each in done[: left.node + 1]] != [
        _shape_of(each) for each in again[: left.node + 1]
    ]:
        message = (
            f"{done[left.node].site}: the flow did something else when it was recorded again; it must "
            "depend only on its arguments and the attributes of its module"
        )
        raise FlowError(message)
    return program, result


def _shape_of(node: NodeSpec) -> tuple[Any, ...]:
    return node.kind, node.target, node.args, node.kwargs


def _record(
    module: FlowModule,
    definition: Definition,
    inputs: tuple[Any, ...],
    replay: Replay,
    is_tied: bool,
) -> tuple[CompiledPlan, Any]:
    live = _live(type(module))
    tracer = Tracer(module, valued=True, live=live, replay=replay)
    tracer.guards.is_tied = is_tied
    with _tracing(tracer, definition):
        values = tuple(
            admit(tracer, name, value)
            for name, value in zip(definition.inputs, inputs, strict=True)
        )
        values = tied(tracer, definition, inputs, values)
        try:
            output = definition.call(module, values)
        except Exception as error:
            if any(unwrap(leaf) is not leaf for leaf in leaves(error.args)):
                error.args = map_leaves(error.args, unwrap)
            refused = error_of_proxy(error)
            if refused is not None:
                raise refused from error
            raise
    spec = _with_children(tracer.finish(output, module.training), module)
    program = CompiledPlan(spec, tracer.encoder.constants, definition.title, tracer.is_portable)
    program.entry = tracer.attributes.entry
    program.names = frozenset(tracer.sources.names)
    program.is_tied = is_tied
    watch = module._flodl_plans[definition.key].watch
    watch.keep({name: unwrap(flow) for name, (_, flow) in tracer.tags.items()})
    result = map_leaves(output, unwrap)
    tracer.release()
    return program, result


__all__ = ["FlowModule", "GraphError", "subflow"]
