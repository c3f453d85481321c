"""Routing: every expert weighted by a router (gate), or one branch chosen by it (switch).

Shape suffixes: B batch, N experts or branches, ... any further dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flodl.errors import GraphError
from flodl.nodes.stages import apply_each, apply_stage, apply_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def gate(x: Any, router: Any, experts: Sequence[Any], refs: Mapping[str, Any]) -> torch.Tensor:
    """Return the sum of all experts' outputs, weighted by the router.

    Args:
        x: the stream.
        router: gives weights `[B, ..., N]` for N experts; or the weights themselves.
        experts: stages; their outputs must have one shape, of any rank, beginning with `[B, ...]`.
        refs: tagged values for the router.

    Raises:
        GraphError: the router gives another number of weights than there are experts.
    """
    weights = _routes(router, x, refs)
    if weights.size(-1) != len(experts):
        message = (
            f"the router of a gate gave {weights.size(-1)} weights for {len(experts)} experts; "
            f"it got shape {list(weights.shape)}"
        )
        raise GraphError(message)
    return _weighted_sum(apply_each(experts, x), weights)


def _routes(router: Any, x: Any, refs: Mapping[str, Any]) -> torch.Tensor:
    """Return the output of a router, or the tensor given in its place."""
    if isinstance(router, torch.Tensor):
        return router
    said: torch.Tensor = apply_with(router, x, refs)
    return said


def _weighted_sum(values: Sequence[torch.Tensor], weights: torch.Tensor) -> torch.Tensor:
    """Return the sum of N values `[B, ...]`, weighted by `[B, ..., N]`; one kernel call per value."""
    missing = values[0].dim() - weights.dim() + 1
    for _ in range(missing):
        weights = weights.unsqueeze(-2)
    each = weights.unbind(-1)
    total = values[0] * each[0]
    for value, weight in zip(values[1:], each[1:], strict=True):
        total = torch.addcmul(total, value, weight)
    return total


def switch(x: Any, router: Any, branches: Sequence[Any], refs: Mapping[str, Any]) -> Any:
    """Return the result of the branch that the router chooses; only chosen branches run.

    Args:
        x: the stream.
        router: gives one index (for the whole batch) or `[B]` indices (one per sample); or the
            indices themselves.
        branches: stages; per sample, their outputs must agree in shape but for the batch.
        refs: tagged values for the router.

    Raises:
        GraphError: an index is not the number of a branch.
    """
    chosen = _routes(router, x, refs)
    if chosen.is_meta:
        # Only shapes are computed, so no branch is chosen: every branch has to fit.
        first, *_ = [apply_stage(branch, x) for branch in branches]
        return first
    if chosen.numel() == 1:
        index = int(chosen.reshape(()).item())
        _check_index(index, len(branches))
        return apply_stage(branches[index], x)
    return _per_sample(x, chosen.reshape(-1).long(), branches)


def _check_index(index: int, count: int) -> None:
    if not 0 <= index < count:
        message = f"the router of a switch chose branch {index}, but there are {count} (0 to {count - 1})"
        raise GraphError(message)


def _per_sample(x: Any, chosen_B: torch.Tensor, branches: Sequence[Any]) -> torch.Tensor:
    """Run each branch on the samples that chose it, and put the results back in their order."""
    if chosen_B.numel() != x.size(0):
        message = (
            f"the router of a switch gave {chosen_B.numel()} indices for a batch of {x.size(0)}; give one "
            "for all, or one per sample"
        )
        raise GraphError(message)
    _check_index(int(chosen_B.min()), len(branches))
    _check_index(int(chosen_B.max()), len(branches))
    order, results = [], []
    for position, branch in enumerate(branches):
        members = (chosen_B == position).nonzero().squeeze(1)
        if members.numel():
            order.append(members)
            results.append(apply_stage(branch, x[members]))
    return torch.cat(results)[torch.cat(order).argsort()]
