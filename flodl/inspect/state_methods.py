"""A graph's methods for what it carries from call to call, and for the ends of steps and epochs."""

from __future__ import annotations

from flodl.graph import state
from flodl.graph.planned_module import Offered
from flodl.inspect import steps
from flodl.inspect.viewer import AbstractViewer


class StateMixin(AbstractViewer):
    """Methods of a graph for values that it holds for the next call.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder, StateAdd
        >>> graph = FlowBuilder.from_(StateAdd()).using("total").tag("total").build()
        >>> [graph(torch.ones(1)).item() for _ in range(2)]
        [1.0, 2.0]
        >>> graph.end_sequence()
        >>> graph.has_state()
        False
    """

    @Offered
    def step_count(self) -> int:
        """How often `end_step` was called in this epoch."""
        return steps.counts_of(self._viewed).steps

    @Offered
    def epoch_count(self) -> int:
        """How often `end_epoch` was called."""
        return steps.counts_of(self._viewed).epochs

    def has_state(self) -> bool:
        """Return True if values are held for the next call, here or in a nested graph."""
        return state.has_state(self._viewed)

    def detach_state(self) -> None:
        """Keep all held values and cut their gradient history, in nested graphs too."""
        state.detach_state(self._viewed)

    def reset_state(self) -> None:
        """Forget all held values, in nested graphs too."""
        state.reset_state(self._viewed)

    def end_step(self) -> None:
        """End a training step: cut the history of held values, count the step, note its times."""
        steps.end_step(self._viewed)

    def end_sequence(self) -> None:
        """End a sequence: the next call starts without memory."""
        state.reset_state(self._viewed)

    def end_epoch(self) -> None:
        """End an epoch: count it, reset the step count, take the means of metrics and noted times."""
        steps.end_epoch(self._viewed)
