"""`Flow`: an immutable proxy for one value of a graph, used like a tensor in expressions."""

from __future__ import annotations

import difflib
import operator
import sys
from collections.abc import Iterator, KeysView, Mapping, Sized
from typing import TYPE_CHECKING, Any, final

import torch

from flodl.errors import FlowError
from flodl.graph.shape_nodes import METADATA_ATTRIBUTES
from flodl.nodes.iteration import advance
from flodl.tracing.callsite import assigned_names, call_site, unpack_size, user_frame
from flodl.tracing.flow_value import UNKNOWN, FlowValueMixin, NeedsValueError
from flodl.tracing.isinstance_checks import answers_class
from flodl.tracing.method_call import Method
from flodl.tracing.operators import install_operators
from flodl.tracing.pytrees import PLAIN_KINDS
from flodl.vocabulary import control_flow as composites
from flodl.vocabulary import stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.tracer import Tracer
    from flodl.vocabulary.control_flow import MapBody, Scan
    from flodl.vocabulary.loops import Loop
    from flodl.vocabulary.stages import Stage


_TENSOR_ATTRIBUTES = METADATA_ATTRIBUTES | {
    "T", "mT", "H", "mH", "data", "grad", "real", "imag", "grad_fn",
}  # fmt: skip
# Both a method of sparse tensors and a field of `torch.max(x, dim)`: only a value can tell.
_AMBIGUOUS = frozenset({"values", "indices", "names"})


@final
class Flow(FlowValueMixin):
    """One value of a flow graph.

    Flow words (`through`, `also`, `split`, `tag`, ...) and tensor expressions (operators, indexing,
    tensor methods and attributes, `torch.*`, `F.*`) each record one node and return the flow of its
    result.  A flow never changes; Python variables are the wires.

    Example:
        >>> import torch
        >>> from flodl import Flow, FlowModule
        >>> class Residual(FlowModule):
        ...     def __init__(self, width: int) -> None:
        ...         super().__init__()
        ...         self.linear = torch.nn.Linear(width, width)
        ...     def flow(self, x: Flow) -> Flow:
        ...         return x.also(self.linear).through(torch.relu)
        >>> Residual(4)(torch.ones(2, 4)).shape
        torch.Size([2, 4])
    """

    __slots__ = ()

    # Numbers and arrays of numpy leave their operators to us, as they do to a tensor.
    __array_priority__ = 1000

    # ---- flow words ---------------------------------------------------------------------------

    def through(self, stage: Stage, /, *extra: Any, **named: Any) -> Flow:
        """Pass the value through a stage: `stage(x, *extra, **named)`.

        Args:
            stage: a module, any callable, or a tuple, list or `nn.ModuleList` of stages, run in order.
            *extra: further positional arguments; flows among them are wired.
            **named: keyword arguments, likewise.

        Returns:
            The flow of the stage's result.
        """
        result: Flow = stages.run_stage(self._tracer, stage, self, extra, named)
        return result

    def also(self, stage: Stage | Flow, /, *extra: Any, **named: Any) -> Flow:
        """Add a stage's result to the value (a residual connection): `x + stage(x)`.

        A flow in the place of the stage is a result that is there already: `x.also(y)` is `x + y`.
        """
        made: Any = stage
        if type(made) is Flow and not extra and not named:
            return add(self, made)
        return add(self, self.through(made, *extra, **named))

    def also_with(self, *paths: Stage, **named: Stage) -> Flow:
        """Add two paths: `skip(x) + main(x)`.

        The paths run and are added in the order in which they are written: random draws and in-place
        effects keep their place, and of two memory formats the sum has the first one's.

        Raises:
            FlowError: not exactly the two paths `skip` and `main` are given.
        """
        return stages.run_also_with(self, paths, named)

    def fork(self, stage: Stage, /, *extra: Any, tag: str | None = None, **named: Any) -> Flow:
        """Run a side branch and continue with the value itself; `tag` names the side branch's result."""
        side = self.through(stage, *extra, **named)
        if tag is not None:
            side.tag(tag)
            return self
        self._tracer.pending_fork = (side, self)
        return self

    def split(self, *parts: Any, **named: Any) -> Any:
        """Run several stages on the value: `x.split(a, b).merge(Add())`, or `a, b = x.split(f, g)`.

        With numbers it is `torch.Tensor.split(split_size, dim)`.

        Returns:
            The branches, ready for `merge`; a flow of the parts if the arguments are numbers.
        """
        if stages.are_stages(parts):
            return stages.run_branches(self, parts)
        return Method(self, "split")(*parts, **named)

    def tag(self, name: str) -> Flow:
        """Name the value, so that it can be used, observed and drawn by that name.

        Right after `fork`, the side branch's result gets the name.

        Raises:
            FlowError: another value already has the name.
        """
        tracer = self._tracer
        pending, tracer.pending_fork = tracer.pending_fork, None
        target = pending[0] if pending is not None and pending[1] is self else self
        tracer.tag(name, target)
        return self

    def using(self, *names: str, **named: str) -> stages.Using:
        """Hand earlier tagged values to the next stage: `x.using("memory").through(self.decoder)`.

        Raises:
            FlowError: no value of that name has been tagged yet.
        """
        keyed = stages.tagged(self, tuple(named.values()))
        return stages.Using(
            self, stages.tagged(self, names), {key: keyed[tag] for key, tag in named.items()}
        )

    def loop_body(self, stage: Stage, /, *extra: Any, **named: Any) -> Loop:
        """Start a loop: `x.loop_body(stage).for_n(3)` is `stage(stage(stage(x)))`.

        Args:
            stage: the stage that every turn applies to the result of the turn before.
            *extra: further positional arguments, the same in every turn.
            **named: keyword arguments, likewise.
        """
        from flodl.vocabulary.loops import Loop

        return Loop(self, stage, None, extra, named)

    def gate(self, router: Stage | Flow, *experts: Stage, **refs: Any) -> Flow:
        """Run all experts and add their results, weighted by the router (soft routing).

        Args:
            router: gives weights `[..., N]` for N experts, for instance `SoftmaxRouter`; or the weights.
            *experts: at least two stages, or one list of them.
            **refs: further flows for the router.
        """
        return composites.route(self, "gate", router, experts, refs)

    def switch(self, router: Stage | Flow, *branches: Stage, **refs: Any) -> Flow:
        """Run only the branch that the router chooses, for the batch or per sample (hard routing).

        Args:
            router: gives one branch index, or `[B]`, for instance `ArgmaxSelector`; or the indices.
            *branches: at least two stages, or one list of them.
            **refs: further flows for the router.
        """
        return composites.route(self, "switch", router, branches, refs)

    def map(self, stage: Stage) -> MapBody:
        """Run a stage on parts of the value: `.along(dim)`, `.each()`, `.over(tag)` or `.slices(n)`."""
        return composites.MapBody(self, stage)

    def scan(self, cell: Stage, state: Any, *, readout: Stage | None = None) -> Scan:
        """Run a recurrent cell along a dimension: `outputs, state = x.scan(cell, state).along(1)`.

        Args:
            cell: a module or callable from `(x_t, state)` to the next state, such as `nn.GRUCell`; of
                a state of several parts the first is the output, as `nn.LSTMCell` has it.
            state: the first state: a flow, a tuple of flows, or `None` if the cell takes that.
            readout: a stage that makes the output of a step from it, run at every step.
        """
        return composites.Scan(self, cell, state, readout)

    def previous(self, name: str, initial: Any = None) -> Flow:
        """Return the value that the tag `name` has had in the last call (a forward reference).

        Args:
            name: a tag that this flow gives further down.
            initial: the value for the first call: a tensor, or a function of this flow's value;
                zeros like this flow's value if not given.
        """
        return composites.previous(self, name, initial)

    # ---- standing in for the value ------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        value = object.__getattribute__(self, "_value")
        known: type | None = object.__getattribute__(self, "_known")
        kind = known if value is UNKNOWN else type(value)
        if not answers_class(kind, sys._getframe(1)):
            return Flow
        if kind is None:
            # Only a value can tell; a call at the same place may yet show that torch's parser read it.
            self._tracer.guards.look(self)
            return Flow
        return kind

    @property
    def __torch_function__(self) -> Callable[..., Any]:
        # torch's parser takes a first argument with this attribute for a whole size list, so
        # `torch.zeros(batch, 4)` fails; after it has poked `__index__`, we are an integer to it.
        if self._tracer.guards.was_poked_here(self):
            message = "an integer"
            raise AttributeError(message)
        return _outside

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = object.__getattribute__(self, "_value")
        if value is UNKNOWN:
            return self._describe_attribute(name)
        if callable(getattr(type(value), name, None)) or callable(vars_of(value).get(name)):
            return Method(self, name)
        nodes = self._tracer.nodes
        before = len(nodes)
        try:
            return self._tracer.step(
                "attribute", name, (self,), compute=lambda owner: getattr(owner, name)
            )
        except AttributeError as error:
            # `hasattr(x, name)` continues from here: a missing attribute is no step.
            del nodes[before:]
            near = difflib.get_close_matches(name, _FLOW_WORDS, n=1)
            if not near:
                raise
            message = f"{error}; did you mean the flow word `{near[0]}`?"
            raise AttributeError(message, name=name, obj=value) from error

    def _describe_attribute(self, name: str) -> Any:
        if name in _TENSOR_ATTRIBUTES and name not in (
            "index",
            "type",
            "is_complex",
            "is_floating_point",
        ):
            return self._tracer.step("attribute", name, (self,), compute=None)
        if name in _AMBIGUOUS or not callable(getattr(torch.Tensor, name, None)):
            _need_value()
        return Method(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._tracer.step(
            "setattr", name, (self, value), compute=lambda owner, new: setattr(owner, name, new)
        )

    def __getitem__(self, index: Any) -> Any:
        return self._tracer.step("item", "", (self, index), compute=operator.getitem)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tracer.step("operator", "setitem", (self, index, value), compute=operator.setitem)

    def __iter__(self) -> Iterator[Any]:
        tracer = self._tracer
        frame = user_frame(1)
        count = unpack_size(frame)
        value = object.__getattribute__(self, "_value")
        if isinstance(value, Iterator):
            return _items_of(self)
        if isinstance(value, Mapping | KeysView) and all(type(key) is str for key in value):
            # Python wants texts for `f(**table)`, and `table[key]` is another step for each of them.
            keys = tracer.step("function", "tuple", (self,), compute=tuple)
            return iter(tracer.guards.ask(keys, tuple, "the keys"))
        if count is None:
            length = tracer.step("method", "__len__", (self,), compute=len)
            count = tracer.guards.ask(length, int, "the length")
        return iter(tracer.unpack(self, count, assigned_names(frame)))

    def __len__(self) -> int:
        kind = type(object.__getattribute__(self, "_value"))
        if kind is not type(UNKNOWN) and not issubclass(kind, Sized):
            # `list(values)` calls this for a hint first; without a length there is no step.
            message = f"object of type {kind.__name__!r} has no len()"
            raise TypeError(message)
        length = self._tracer.step("method", "__len__", (self,), compute=len)
        return int(self._tracer.guards.ask(length, int, "the length"))

    def __bool__(self) -> bool:
        return bool(self._tracer.guards.ask(self, bool, "the truth"))

    def __int__(self) -> int:
        return int(self._tracer.guards.ask(self, int, "an integer"))

    def __float__(self) -> float:
        return float(self._tracer.guards.ask(self, float, "a number"))

    def __index__(self) -> int:
        tracer: Tracer = object.__getattribute__(self, "_tracer")
        return tracer.guards.poke(self)

    def __contains__(self, item: Any) -> bool:
        found = self._tracer.step(
            "function", "operator.contains", (self, item), compute=operator.contains
        )
        return bool(found)

    def __format__(self, spec: str) -> str:
        return format(self._tracer.guards.ask(self, lambda value: value, "the text"), spec)

    def __hash__(self) -> int:
        value = object.__getattribute__(self, "_value")
        if type(value) in PLAIN_KINDS:
            # A number is looked up by what it is.
            return hash(self._tracer.guards.ask(self, lambda known: known, "the hash"))
        if value is UNKNOWN and object.__getattribute__(self, "_known") is None:
            _need_value()  # it may be a number
        return id(self)

    def __str__(self) -> str:
        value = object.__getattribute__(self, "_value")
        if value is UNKNOWN:
            _need_value()  # `str(x.device)` is a text that the flow may compare
        return (
            str(self._tracer.guards.ask(self, lambda known: known, "the text"))
            if (type(value) in PLAIN_KINDS)
            else repr(self)
        )

    def __repr__(self) -> str:
        value = object.__getattribute__(self, "_value")
        if type(value) in PLAIN_KINDS:
            # It may become part of a text that the flow makes: `str(tuple(x.shape))`.
            return repr(self._tracer.guards.ask(self, lambda known: known, "the text"))
        node = self._tracer.nodes[object.__getattribute__(self, "_node")]
        text = "described" if value is UNKNOWN else stages.short(value)
        return f"<Flow {node.name}: {text}>"


# Candidates for a misspelt word; operators and tensor methods are torch's to explain.
_FLOW_WORDS = [name for name in vars(Flow) if not name.startswith("_")]


def add(left: Any, right: Any) -> Flow:
    """Record `left + right`."""
    total: Flow = left + right
    return total


def vars_of(value: object) -> dict[str, Any]:
    """Return the instance dictionary of a value, empty if it has none."""
    found: dict[str, Any] = getattr(value, "__dict__", {})
    return found


def _items_of(iterator: Flow) -> Iterator[Any]:
    """Yield the items of an iterator in a call, one by one as Python does."""
    tracer: Tracer = object.__getattribute__(iterator, "_tracer")
    name = tracer.encoder.callable_name(advance)
    while True:
        there, item = tracer.unpack(tracer.step("function", name, (iterator,), compute=advance), 2)
        if not tracer.guards.ask(there, bool, "the end"):
            return
        yield item


def next_item(iterator: Flow, *default: Any) -> Any:
    """Record `next(iterator)`; every call checks whether there is an item.

    Raises:
        StopIteration: there is none, and no default.
    """
    tracer: Tracer = object.__getattribute__(iterator, "_tracer")
    if default:
        return tracer.step("function", "next", (iterator, *default), compute=next)
    for item in _items_of(iterator):
        return item
    raise StopIteration


def _need_value() -> None:
    raise NeedsValueError


def _outside(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Refuse a torch call on a flow whose recording is over."""
    del types, args, kwargs
    name = getattr(func, "__name__", func)
    message = (
        f"{call_site()}: `{name}` was called with a Flow outside the flow that made it; a Flow describes a "
        "value while `flow` runs, it is not a tensor"
    )
    raise FlowError(message)


install_operators(Flow)
