"""A graph's methods for what it carries from call to call, and for the ends of steps and epochs."""

from __future__ import annotations

from flodl.graph.yielding import YieldingNamesMixin


class StateMixin(YieldingNamesMixin):
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

    def has_state(self) -> bool:
        """Return True if values are held for the next call, here or in a nested graph."""
        from flodl.graph import state

        return state.has_state(self)

    def detach_state(self) -> None:
        """Keep all held values and cut their gradient history, in nested graphs too."""
        from flodl.graph import state

        state.detach_state(self)

    def reset_state(self) -> None:
        """Forget all held values, in nested graphs too."""
        from flodl.graph import state

        state.reset_state(self)

    def end_step(self) -> None:
        """End a training step: cut the history of held values, count the step, note its times."""
        from flodl.graph import state, timing

        state.detach_state(self)
        timing.note_step(self)
        vars(self)["step_count"] += 1

    def end_sequence(self) -> None:
        """End a sequence: the next call starts without memory."""
        from flodl.graph import state

        state.reset_state(self)

    def end_epoch(self) -> None:
        """End an epoch: count it, reset the step count, take the means of metrics and noted times."""
        from flodl.graph import observation, timing

        observation.flush(self)
        timing.note_epoch(self)
        vars(self).update(step_count=0, epoch_count=vars(self)["epoch_count"] + 1)
