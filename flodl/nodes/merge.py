"""Ways to merge the branches of a split into one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@final
@dataclass(frozen=True, slots=True)
class Add:
    """Sum of the branches, left to right: `a + b + c`.

    Example:
        >>> import torch
        >>> Add()([torch.ones(2), torch.ones(2)])
        tensor([2., 2.])
    """

    def __call__(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge the values of all branches."""
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total


@final
@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of the branches: `(a + b + c) / 3`.

    Example:
        >>> import torch
        >>> Mean()([torch.ones(2), torch.zeros(2)])
        tensor([0.5000, 0.5000])
    """

    def __call__(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge the values of all branches."""
        return Add()(values) / len(values)


@final
@dataclass(frozen=True, slots=True)
class Mul:
    """Element-wise product of the branches, left to right: `a * b * c`.

    Example:
        >>> import torch
        >>> Mul()([torch.full((2,), 3.0), torch.full((2,), 2.0)])
        tensor([6., 6.])
    """

    def __call__(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge the values of all branches."""
        product = values[0]
        for value in values[1:]:
            product = product * value
        return product


@final
@dataclass(frozen=True, slots=True)
class Max:
    """Element-wise maximum of the branches, as `torch.maximum` propagates NaN.

    Example:
        >>> import torch
        >>> Max()([torch.tensor([1.0, 5.0]), torch.tensor([3.0, 2.0])])
        tensor([3., 5.])
    """

    def __call__(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge the values of all branches."""
        largest = values[0]
        for value in values[1:]:
            largest = torch.maximum(largest, value)
        return largest


@final
@dataclass(frozen=True, slots=True)
class Cat:
    """Concatenation of the branches along `dim`, as `torch.cat`.

    Example:
        >>> import torch
        >>> Cat(dim=1)([torch.ones(2, 1), torch.ones(2, 3)]).shape
        torch.Size([2, 4])
    """

    dim: int = 0

    def __call__(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge the values of all branches."""
        return torch.cat(list(values), dim=self.dim)


@final
@dataclass(frozen=True, slots=True)
class Stack:
    """The branches stacked along a new dimension `dim`, as `torch.stack`.

    Example:
        >>> import torch
        >>> Stack(dim=0)([torch.ones(2), torch.ones(2)]).shape
        torch.Size([2, 2])
    """

    dim: int = 0

    def __call__(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge the values of all branches."""
        return torch.stack(list(values), dim=self.dim)


@final
class MergeOp:
    """The merge operations under one name, as the Rust framework has them.

    Example:
        >>> import torch
        >>> MergeOp.Mean()([torch.ones(2), torch.zeros(2)])
        tensor([0.5000, 0.5000])
    """

    Add = Add
    Mean = Mean
    Mul = Mul
    Max = Max
    Cat = Cat
    Stack = Stack


Merge: TypeAlias = "Add | Mean | Mul | Max | Cat | Stack"
MERGE_NAMES: dict[type, str] = {
    Add: "add",
    Mean: "mean",
    Mul: "mul",
    Max: "max",
    Cat: "cat",
    Stack: "stack",
}


def as_merge(op: Merge | type | Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a merge operation given as an instance, as its class, or as any function of a list."""
    if isinstance(op, type) and op in MERGE_NAMES:
        made: Callable[..., torch.Tensor] = op()
        return made
    return op
