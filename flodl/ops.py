"""Tensor operations under the names of flodl that torch writes as an operator or with other arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_PAD_MODES: Final = ("constant", "reflect", "replicate", "circular")


def add_scalar(x: Tensor, value: float) -> Tensor:
    """Return `x + value`."""
    return x + value


def mul_scalar(x: Tensor, value: float) -> Tensor:
    """Return `x * value`."""
    return x * value


def div_scalar(x: Tensor, value: float) -> Tensor:
    """Return `x / value`."""
    return x / value


def pow_scalar(x: Tensor, exponent: float) -> Tensor:
    """Return `x ** exponent`."""
    return torch.pow(x, exponent)


def sum_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the sums along a dimension."""
    return x.sum(dim, keepdim=keepdim)


def mean_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the means along a dimension."""
    return x.mean(dim, keepdim=keepdim)


def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the largest values along a dimension, without their places."""
    return x.max(dim, keepdim=keepdim).values


def min_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the smallest values along a dimension, without their places."""
    return x.min(dim, keepdim=keepdim).values


def prod_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the products along a dimension."""
    return x.prod(dim, keepdim=keepdim)


def var_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the unbiased variances along a dimension."""
    return x.var(dim, keepdim=keepdim)


def std_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the unbiased standard deviations along a dimension."""
    return x.std(dim, keepdim=keepdim)


def gt_scalar(x: Tensor, value: float) -> Tensor:
    """Return where `x > value`."""
    return x > value


def lt_scalar(x: Tensor, value: float) -> Tensor:
    """Return where `x < value`."""
    return x < value


def ge_scalar(x: Tensor, value: float) -> Tensor:
    """Return where `x >= value`."""
    return x >= value


def le_scalar(x: Tensor, value: float) -> Tensor:
    """Return where `x <= value`."""
    return x <= value


def where_cond(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return elements of `x` where the condition holds, of `y` elsewhere."""
    return torch.where(condition, x, y)


def cat_many(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return the tensors one after the other along a dimension."""
    return torch.cat(list(tensors), dim)


def unsqueeze_many(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Insert dimensions of size 1, one after the other in the given order.

    Every position counts in the tensor as it is at that moment.

    Example:
        >>> unsqueeze_many(torch.ones(3), [0, 2]).shape
        torch.Size([1, 3, 1])
    """
    for dim in dims:
        x = x.unsqueeze(dim)
    return x


def pad_mode(x: Tensor, sizes: Sequence[int], mode: int | str, value: float = 0.0) -> Tensor:
    """Pad with a mode by name or number: 0 constant, 1 reflect, 2 replicate, 3 circular.

    Raises:
        ValueError: there is no such mode.
    """
    name = _PAD_MODES[mode] if isinstance(mode, int) and 0 <= mode < len(_PAD_MODES) else mode
    if name not in _PAD_MODES:
        raise ValueError(f"pad_mode knows {', '.join(_PAD_MODES)} (0 to 3), got {mode!r}")
    if name == "constant":
        return F.pad(x, tuple(sizes), mode=name, value=value)
    return F.pad(x, tuple(sizes), mode=name)
