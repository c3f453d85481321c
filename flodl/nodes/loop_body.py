"""A loop body that tells, turn by turn, what it did: named values published while the loop runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from torch import Tensor, nn

from flodl.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Mapping


@final
class TraceEmit:
    """The place where one turn of a loop publishes its values."""

    def __init__(self, traces: dict[str, list[Any]] | None) -> None:
        """Publish into lists by name, or nowhere if there are none."""
        self._traces = traces
        self._seen: set[str] = set()

    @staticmethod
    def discard() -> TraceEmit:
        """Return a place that keeps nothing."""
        return TraceEmit(None)

    def publish(self, name: str, value: Tensor) -> None:
        """Add a value of this turn to the trace of that name; a turn may leave names out.

        Args:
            name: the name for `graph.traces(name)`.
            value: any tensor; it keeps its gradient history, so that a loss may use it.

        Raises:
            GraphError: this turn has published the name already.
        """
        if name in self._seen:
            message = f"`{name}` is published twice in one turn of a loop; choose a second name"
            raise GraphError(message)
        self._seen.add(name)
        if self._traces is not None:
            self._traces.setdefault(name, []).append(value)


class LoopBody(nn.Module):
    """A module for `loop_body(...)` that defines `step` and may publish values at every turn.

    Called as a module it does the same step and keeps nothing.  The traces of a loop are there until the
    next forward; copies and pickles leave them behind.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder, LoopBody
        >>> class Halve(LoopBody):
        ...     def step(self, x, refs, emit):
        ...         emit.publish("norm", x.norm())
        ...         return x / 2
        >>> graph = FlowBuilder.new().loop_body(Halve()).for_n(3).build()
        >>> graph(torch.tensor([8.0]))
        tensor([1.])
        >>> [float(each) for each in graph.traces("norm")]
        [8.0, 4.0, 2.0]
    """

    def __init__(self) -> None:
        """Make a body without traces."""
        super().__init__()
        self._traces: dict[str, list[Any]] | None = None

    def step(self, x: Any, refs: Mapping[str, Tensor], emit: TraceEmit) -> Any:
        """Return the value after one turn.

        Args:
            x: the value before the turn.
            refs: tagged values given with `using`, by name.
            emit: where to publish values of this turn.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no step(x, refs, emit)")

    def trace(self) -> Tensor | None:
        """Return a value of the turn that ended, for `graph.traces(tag of the loop)`; by default none."""
        return None

    def reset(self) -> None:
        """Forget what earlier loops left behind; called before the first turn."""

    def forward(self, x: Any) -> Any:
        """Do one step without tagged values."""
        return self.step(x, {}, TraceEmit.discard())

    def forward_named(self, x: Any, refs: Mapping[str, Tensor]) -> Any:
        """Do one step with tagged values."""
        return self.step(x, refs, TraceEmit.discard())

    def __getstate__(self) -> dict[str, Any]:
        """Leave traces behind: they belong to a forward of this very module."""
        return {**self.__dict__, "_traces": None}


def traced_turn(body: LoopBody, x: Any, refs: Mapping[str, Any]) -> Any:
    """Do one turn of a loop and keep what it publishes."""
    traces = vars(body)["_traces"]
    x = body.step(x, refs, TraceEmit(traces))
    value = body.trace()
    if value is not None:
        traces.setdefault("", []).append(value)
    return x


def start_traces(body: LoopBody) -> None:
    """Forget the traces of the loop before."""
    vars(body)["_traces"] = {}
