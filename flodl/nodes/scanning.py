"""Recurrent cells over time: `state = cell(x_t, state)` for every slice `x_t` of a dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flodl.nodes.stages import apply_stage

if TYPE_CHECKING:
    from collections.abc import Iterator


def scan_along(
    x: torch.Tensor, cell: Any, state: Any, dim: int, out_dim: int, readout: Any
) -> tuple[torch.Tensor, Any]:
    """Run a cell along a dimension and keep what every step puts out.

    Args:
        x: the stream; its slices along `dim` come one after the other, without that dimension.
        cell: called as `cell(x_t, state)`; gives the next state: a tensor, or a tuple or list whose
            first part is the output, as `nn.LSTMCell` has it.
        state: the first state, of any kind that the cell takes.
        dim: the dimension of time.
        out_dim: the new dimension along which the outputs are stacked.
        readout: a stage from output to output, run at every step; or nothing.

    Returns:
        The outputs, and the last state.  A sequence of no steps has no outputs to stack: an error.
    """
    outputs = []
    for after in _states(x, cell, state, dim):
        state = after
        output = state[0] if isinstance(state, (tuple, list)) else state
        outputs.append(output if readout is None else apply_stage(readout, output))
    return torch.stack(outputs, out_dim), state


def scan_last(x: torch.Tensor, cell: Any, state: Any, dim: int) -> Any:
    """Run a cell along a dimension and return the last state; the first one if there are no steps."""
    for after in _states(x, cell, state, dim):
        state = after
    return state


def _states(x: torch.Tensor, cell: Any, state: Any, dim: int) -> Iterator[Any]:
    # A state of several parts stays the kind of container that it was: `h, c = cell(x_t, (h, c))`.
    kind = type(state) if type(state) in (tuple, list) else None
    # `select` and not `unbind`: gradients then add up as those of `x[:, t]` do, bit by bit.
    for step in range(x.size(dim)):
        try:
            after = cell(x.select(dim, step), state)
        except Exception as error:
            error.add_note(f"in step {step} of a scan along dimension {dim}")
            raise
        state = after if kind is None else kind(after)
        yield state
