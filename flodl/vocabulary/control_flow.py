"""Routing, mapping and halting loops as words of a flow: each is one node around its stages."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, final

from torch import nn

from flodl.errors import FlowError
from flodl.graph.state import read_state, write_state
from flodl.nodes.looping import loop_halting
from flodl.nodes.mapping import map_along, map_each, map_slices
from flodl.nodes.routing import gate, switch
from flodl.nodes.scanning import scan_along, scan_last
from flodl.tracing.callsite import call_site
from flodl.tracing.flow_value import is_flow
from flodl.tracing.pytrees import tracer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flodl.tracing.proxy import Flow


def node(x: Flow, function: Callable[..., Any], *args: Any) -> Any:
    """Record one call of a function of ours on a flow; on a plain value just call it."""
    if not is_flow(x):
        return function(x, *args)
    tracer = tracer_of(x)
    target = tracer.encoder.callable_name(function)
    return tracer.step("function", target, (x, *args), compute=function)


def whole(n: Any, word: str) -> int:
    """Return a count as a whole number, as `range` would.

    Raises:
        FlowError: it is something else, such as 2.5.
    """
    try:
        return operator.index(n)
    except TypeError:
        message = f"{call_site()}: {word}({n!r}) needs a whole number, not a {type(n).__name__}"
        raise FlowError(message) from None


def route(
    x: Flow,
    kind: str,
    router: Any,
    stages: tuple[Any, ...],
    refs: dict[str, Any],
) -> Flow:
    """Record a gate or a switch.

    Raises:
        FlowError: fewer than two stages are given, or tagged values for weights that are there.
    """
    # How long a list of modules is, is a setting of the model.
    listed = len(stages) == 1 and issubclass(type(stages[0]), nn.ModuleList)
    grouped = len(stages) == 1 and not callable(stages[0]) and isinstance(stages[0], Iterable)
    found = list(stages[0] if listed or grouped else stages)
    if len(found) < (1 if listed else 2):
        message = f"{call_site()}: {kind} needs at least two stages"
        raise FlowError(message)
    if refs and is_flow(router):
        message = (
            f"{call_site()}: {kind} by a value takes no further values; they are for a router"
        )
        raise FlowError(message)
    result: Flow = node(x, gate if kind == "gate" else switch, router, found, refs)
    return result


@final
class MapBody:
    """A stage that will run on parts of the value: `x.map(stage).each()`."""

    def __init__(
        self,
        x: Flow,
        stage: Any,
        *,
        batched: bool = False,
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the stream, the stage, and the tagged values where no recording has them."""
        self._x = x
        self._stage = stage
        self._batched = batched
        self._tags = tags

    def batched(self) -> MapBody:
        """Run the stage once on all parts together: the same for stages that treat rows alike."""
        return MapBody(self._x, self._stage, batched=True, tags=self._tags)

    def each(self) -> Flow:
        """Run the stage on every element of dimension 0, which it sees with size 1."""
        result: Flow = node(self._x, map_each, self._stage, self._batched)
        return result

    def over(self, source: Flow | str) -> Flow:
        """Run the stage on every element of an earlier value (a tag or a flow) instead of the stream.

        Raises:
            FlowError: no value has that tag yet.
        """
        value: Any = source
        if type(source) is str:
            tags = self._tags
            if tags is None:
                tags = {name: flow for name, (_, flow) in tracer_of(self._x).tags.items()}
            if source not in tags:
                message = f"{call_site()}: no value is tagged `{source}` before this line"
                raise FlowError(message)
            value = tags[source]
        result: Flow = node(value, map_each, self._stage, self._batched)
        return result

    def slices(self, n: int) -> Flow:
        """Cut the last dimension into `n` slices and run the stage on each.

        Raises:
            FlowError: `n` is smaller than 1.
        """
        n = whole(n, "slices")
        if n < 1:
            message = f"{call_site()}: slices({n}): there is at least one slice"
            raise FlowError(message)
        result: Flow = node(self._x, map_slices, self._stage, n, self._batched)
        return result

    def along(self, dim: int, out_dim: int | None = None) -> Flow:
        """Run the stage on every slice along a dimension, `x.select(dim, i)`, and stack the results.

        Args:
            dim: the dimension that is taken apart.
            out_dim: the dimension along which the results are stacked; `dim` if not given.

        Raises:
            FlowError: the stage is to run batched, which only `each` and `slices` can do.
        """
        if self._batched:
            message = (
                f"{call_site()}: map(...).batched().along({dim}): a stage that sees all slices at once "
                "is x.through(stage)"
            )
            raise FlowError(message)
        to = dim if out_dim is None else out_dim
        result: Flow = node(self._x, map_along, self._stage, dim, to)
        return result


@final
class Scan:
    """A recurrent cell that will run along a dimension: `x.scan(cell, state).along(1)`."""

    def __init__(self, x: Flow, cell: Any, state: Any, readout: Any) -> None:
        self._x = x
        self._cell = cell
        self._state = state
        self._readout = readout

    def along(self, dim: int, *, out_dim: int | None = None) -> Any:
        """Run the cell along a dimension: `outputs, state = x.scan(cell, state).along(1)`.

        Args:
            dim: the dimension of time; the cell sees `x.select(dim, t)`.
            out_dim: the dimension along which the outputs are stacked; `dim` if not given.

        Returns:
            The outputs of all steps, stacked, and the last state.
        """
        to = dim if out_dim is None else out_dim
        return node(self._x, scan_along, self._cell, self._state, dim, to, self._readout)

    def last(self, dim: int) -> Any:
        """Run the cell along a dimension and return the last state alone.

        Raises:
            FlowError: a readout is given, whose results would be lost.
        """
        if self._readout is not None:
            message = f"{call_site()}: scan(..., readout=...).last({dim}) drops what is read out; use along"
            raise FlowError(message)
        return node(self._x, scan_last, self._cell, self._state, dim)


def halting_loop(
    x: Flow, body: Any, halt: Any, limit: int, kind: str, *, per_sample: bool, refs: dict[str, Any]
) -> Flow:
    """Record a loop that a condition ends.

    Raises:
        FlowError: the limit is smaller than 1.
    """
    limit = whole(limit, f"{kind}_cond")
    if limit < 1:
        message = f"{call_site()}: a loop needs a limit of at least 1 turn, not {limit}"
        raise FlowError(message)
    result: Flow = node(x, loop_halting, body, halt, limit, kind, per_sample, refs)
    return result


def previous(x: Flow, name: str, initial: Any) -> Flow:
    """Record the reading of the value that a tag had in the last call."""
    tracer = tracer_of(x)
    tracer.carried.add(name)
    target = tracer.encoder.callable_name(read_state)
    arguments = (
        (tracer.module, name, x, initial) if initial is not None else (tracer.module, name, x)
    )
    result: Flow = tracer.step("function", target, arguments, compute=read_state)
    return result


def keep(value: Flow, name: str) -> None:
    """Record that the value of a tag is kept for the next call."""
    tracer = tracer_of(value)
    target = tracer.encoder.callable_name(write_state)
    tracer.step("function", target, (tracer.module, name, value), compute=write_state)
