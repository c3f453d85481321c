"""Modules that steer graphs: routers, selectors and halts.

Shape suffixes: B batch, D features, N experts or branches, ... any dimensions in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Mapping


def _with_refs(x: torch.Tensor, refs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Add tagged values to a router's input, as a residual."""
    for value in refs.values():
        x = x + value
    return x


class SoftmaxRouter(nn.Module):
    """Weights over `n` experts that are positive and sum to 1: `softmax(Linear(x))`.

    Args:
        in_features: size D of the last dimension of the input.
        n: number of experts.

    Example:
        >>> import torch
        >>> from flodl import SoftmaxRouter
        >>> SoftmaxRouter(4, 3)(torch.ones(2, 4)).sum(-1).round(decimals=4)
        tensor([1., 1.], grad_fn=<RoundBackward1>)
    """

    def __init__(self, in_features: int, n: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return weights `[B, ..., N]` for an input `[B, ..., D]`."""
        return torch.softmax(self.linear(x), dim=-1)

    def forward_named(self, x: torch.Tensor, refs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return weights for the input plus the tagged values."""
        return torch.softmax(self.linear(_with_refs(x, refs)), dim=-1)


class SigmoidRouter(nn.Module):
    """Independent weights in (0, 1) for `n` experts: `sigmoid(Linear(x))`; they need not sum to 1.

    Args:
        in_features: size D of the last dimension of the input.
        n: number of experts.

    Example:
        >>> import torch
        >>> from flodl import SigmoidRouter
        >>> SigmoidRouter(4, 3)(torch.ones(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, in_features: int, n: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return weights `[B, ..., N]` for an input `[B, ..., D]`."""
        return torch.sigmoid(self.linear(x))

    def forward_named(self, x: torch.Tensor, refs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return weights for the input plus the tagged values."""
        return torch.sigmoid(self.linear(_with_refs(x, refs)))


class FixedSelector(nn.Module):
    """Always chooses the same branch.

    Args:
        index: number of the branch, from 0.

    Example:
        >>> import torch
        >>> from flodl import FixedSelector
        >>> FixedSelector(2)(torch.ones(5, 4))
        tensor([2])
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the index as a tensor `[1]` on the device of the input."""
        return torch.full((1,), self.index, device=x.device)


class ArgmaxSelector(nn.Module):
    """Chooses the branch with the largest score `Linear(x)`.

    Args:
        in_features: size D of the last dimension of the input.
        n: number of branches.
        per_sample: choose for every sample on its own; otherwise the mean score of the batch decides.

    Example:
        >>> import torch
        >>> from flodl import ArgmaxSelector
        >>> ArgmaxSelector(4, 3)(torch.ones(5, 4)).shape
        torch.Size([5])
    """

    def __init__(self, in_features: int, n: int, *, per_sample: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, n)
        self.per_sample = per_sample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return indices `[B]`, or one index `[1]`, for an input `[B, D]`."""
        scores_BN = self.linear(x)
        if self.per_sample:
            indices: torch.Tensor = scores_BN.argmax(dim=-1)
            return indices
        mean: torch.Tensor = scores_BN.reshape(-1, scores_BN.size(-1)).mean(0).argmax().reshape(1)
        return mean

    def forward_named(self, x: torch.Tensor, refs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return indices for the input plus the tagged values."""
        chosen: torch.Tensor = self(_with_refs(x, refs))
        return chosen


class ThresholdHalt(nn.Module):
    """Halts once the largest element exceeds a threshold: `max(x) - threshold`, positive means halt.

    Args:
        threshold: the threshold.
        per_sample: give one value per sample `[B]` instead of one for the batch `[1]`.

    Example:
        >>> import torch
        >>> from flodl import ThresholdHalt
        >>> ThresholdHalt(0.5)(torch.tensor([[0.25, 2.0]]))
        tensor([1.5000])
    """

    def __init__(self, threshold: float, *, per_sample: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.per_sample = per_sample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return how far the largest element lies above the threshold."""
        if self.per_sample:
            return x.reshape(x.size(0), -1).amax(dim=1) - self.threshold
        return x.max().reshape(1) - self.threshold


class LearnedHalt(nn.Module):
    """Halts where a learned projection is positive: `Linear(D, 1)`.

    The decision itself has no gradient; train it through a ponder cost on its output.

    Args:
        in_features: size D of the last dimension of the input.

    Example:
        >>> import torch
        >>> from flodl import LearnedHalt
        >>> LearnedHalt(4)(torch.ones(5, 4)).shape
        torch.Size([5, 1])
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores `[B, ..., 1]` for an input `[B, ..., D]`."""
        scores: torch.Tensor = self.linear(x)
        return scores


class StateAdd(nn.Module):
    """Adds all tagged values to the stream: an additive memory cell.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder, StateAdd
        >>> graph = FlowBuilder.from_(StateAdd()).using("memory").tag("memory").build()
        >>> [graph(torch.ones(1)).item() for _ in range(3)]
        [1.0, 2.0, 3.0]
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input; there is nothing to add."""
        return x

    def forward_named(self, x: torch.Tensor, refs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the input plus the tagged values."""
        return _with_refs(x, refs)


class Reshape(nn.Module):
    """Gives the value a fixed shape; one size may be -1.

    Args:
        *shape: the new shape, the batch included: `Reshape(-1, 2, 2)` or `Reshape([-1, 2, 2])`.

    Raises:
        TypeError: a size is no whole number.

    Example:
        >>> import torch
        >>> from flodl import Reshape
        >>> Reshape(-1, 2, 2)(torch.ones(3, 4)).shape
        torch.Size([3, 2, 2])
    """

    def __init__(self, *shape: int | Sequence[int]) -> None:
        super().__init__()
        listed = len(shape) == 1 and isinstance(shape[0], Sequence)
        sizes: Any = shape[0] if listed else shape
        for each in sizes:
            if not isinstance(each, SupportsIndex):
                raise TypeError(f"Reshape takes whole numbers, not {each!r}")
        self.shape: tuple[int, ...] = tuple(sizes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the value in the new shape."""
        return x.reshape(self.shape)
