"""Weights of a model that each rank trains for itself in a window, and that are averaged at its end.

Example: two ranks start a window from the weight 1.0.

    rank 0   ends at 1.6 after 3 units, so its delta is 0.6
    rank 1   ends at 1.2 after 1 unit, so its delta is 0.2
    all      1.0 + (3 * 0.6 + 1 * 0.2) / 4 = 1.5

Ranks count by their units, as in FedAvg (https://arxiv.org/abs/1602.05629). If all counted the same, a device
with a tenth of the speed would halve the way of a fast one. An outer optimizer treats the mean of the deltas
as a gradient (DiLoCo, https://arxiv.org/abs/2311.08105): `v = m v + mean`, then `w += lr (mean + m v)`.

With policy Async, rank 0 trains on from 1.6 while the deltas are added up, and reaches 1.9:

    committed   1.0 + 0.5 = 1.5, as above, and the same on all ranks
    rank 0      continues at 1.5 + 0.3 = 1.8, that is 1.9 + 0.5 - 0.6: its own 0.6 became the mean 0.5

A rank is always at the committed weights plus what it did since, so no rounding error gathers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor


@final
@dataclass(frozen=True, slots=True)
class Outer:
    """Settings of an optimizer of averages: SGD with Nesterov momentum.

    Attributes:
        lr: how far the weights move along the mean of the deltas; 1 without momentum is the plain mean.
        momentum: part of the former moves that is added to each move, from 0 to below 1.
    """

    lr: float
    momentum: float


@final
class CommittedWeights:
    """The weights that all ranks share, beside those on which this rank trains.

    Args:
        parameters: those on which this rank trains.
        outer: the optimizer of averages; `None` for the plain mean.

    Attributes:
        drift: distance of this rank from the last mean, relative to the norm of the mean.
    """

    def __init__(self, parameters: Sequence[Tensor], outer: Outer | None) -> None:
        self.drift = 0.0
        self._parameters = list(dict.fromkeys(parameters))
        self._outer = outer
        self._committed = [each.detach().clone() for each in self._parameters]
        self._start = self._committed  # where this rank began its window
        self._ahead: list[Tensor] = []
        self._moves: list[Tensor] = []
        if outer is not None:
            self._moves = [torch.zeros_like(each, dtype=_wide(each)) for each in self._committed]

    @torch.no_grad()
    def begin(self) -> None:
        """Let the present weights be the committed ones, as after a resume."""
        torch._foreach_copy_(self._committed, self._parameters)
        self._start = self._committed

    @torch.no_grad()
    def deltas(self) -> list[Tensor]:
        """Return how far this rank moved in this window; at least in single precision.

        Its part of the sums is each delta times the units of this rank.
        """
        wide = [each.to(_wide(each)) for each in self._parameters]
        before = [each.to(_wide(each)) for each in self._start]
        return list(torch._foreach_sub(wide, before))

    @torch.no_grad()
    def undo(self) -> None:
        """Return to where this rank began its window."""
        torch._foreach_copy_(self._parameters, self._start)

    @torch.no_grad()
    def train_on(self, deltas: Sequence[Tensor]) -> None:
        """Begin a window from the committed weights and from deltas that are not committed yet.

        Args:
            deltas: what this rank did in the window before; empty for nothing.
        """
        torch._foreach_copy_(self._parameters, self._committed)
        if deltas:
            wide = [
                each.to(move.dtype) for each, move in zip(self._committed, deltas, strict=True)
            ]
            torch._foreach_copy_(self._parameters, torch._foreach_add(wide, list(deltas)))
        if not self._ahead:
            self._ahead = [torch.empty_like(each) for each in self._committed]
        torch._foreach_copy_(self._ahead, self._parameters)
        self._start = self._ahead

    def zeros(self) -> list[Tensor]:
        """Return the deltas of a rank that did not train."""
        return [torch.zeros_like(each, dtype=_wide(each)) for each in self._committed]

    @torch.no_grad()
    def commit(self, sums: Sequence[Tensor], units: int, own: Sequence[Tensor]) -> None:
        """Move the committed weights by the mean of the deltas, and let this rank have them.

        Args:
            sums: the sums of the deltas times units over the ranks.
            units: units of all ranks; with 0 the weights stay.
            own: the deltas of this rank; empty if it did not train.
        """
        if units:
            means = list(torch._foreach_div(list(sums), units))
            away = list(torch._foreach_sub(list(own), means)) if own else []
            moves = self._moves_of(means)
            wide = [each.to(move.dtype) for each, move in zip(self._committed, moves, strict=True)]
            torch._foreach_add_(wide, moves)
            torch._foreach_copy_(self._committed, wide)
            size = norm_of(self._committed)
            self.drift = norm_of(away) / size if away and size else 0.0
        torch._foreach_copy_(self._parameters, self._committed)
        self._start = self._committed

    def _moves_of(self, means: list[Tensor]) -> list[Tensor]:
        outer = self._outer
        if outer is None:
            return means
        torch._foreach_mul_(self._moves, outer.momentum)
        torch._foreach_add_(self._moves, means)
        ahead = torch._foreach_add(means, self._moves, alpha=outer.momentum)
        return list(torch._foreach_mul(list(ahead), outer.lr))

    def tensors(self) -> list[Tensor]:
        """Return the committed weights."""
        return self._committed

    def state_dict(self) -> dict[str, Any]:
        """Return the moves of the outer optimizer; the weights are in the model."""
        return {"moves": [each.clone() for each in self._moves]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the moves of the outer optimizer, if there were some."""
        for own, saved in zip(self._moves, state["moves"], strict=False):
            own.copy_(saved)


def norm_of(tensors: Sequence[Tensor]) -> float:
    """Return the norm of all numbers of some tensors together, infinite or NaN if one of them is."""
    if not tensors:
        return 0.0
    norms = torch._foreach_norm(list(tensors))
    total = torch.linalg.vector_norm(torch.stack([each.double() for each in norms])).item()
    return total if math.isfinite(total) else math.nan


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)
