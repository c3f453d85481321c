"""Nine initialisers that return new tensors, with the formulas and random streams of `torch.nn.init`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

Place: TypeAlias = "torch.device | str | None"


def _empty(shape: Sequence[int], device: Place, dtype: torch.dtype | None) -> Tensor:
    return torch.empty(tuple(shape), device=device, dtype=dtype)


def _positive_fan(name: str, fan: int) -> int:
    if fan <= 0:
        raise ValueError(f"{name} must be positive, got {fan}")
    return fan


def _he_gain(a: float) -> float:
    return math.sqrt(2.0 / (1 + a**2))


def kaiming_uniform(
    shape: Sequence[int],
    fan_in: int,
    a: float = 0.0,
    device: Place = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a tensor with He's uniform distribution for `fan_in` inputs and a leaky slope `a`.

    Example:
        >>> bool((kaiming_uniform((64, 3), fan_in=3).abs() <= 2**0.5).all())
        True
    """
    bound = math.sqrt(3.0) * (_he_gain(a) / math.sqrt(_positive_fan("fan_in", fan_in)))
    return _empty(shape, device, dtype).uniform_(-bound, bound)


def kaiming_normal(
    shape: Sequence[int],
    fan_in: int,
    a: float = 0.0,
    device: Place = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a tensor with He's normal distribution."""
    std = _he_gain(a) / math.sqrt(_positive_fan("fan_in", fan_in))
    return _empty(shape, device, dtype).normal_(0, std)


def xavier_uniform(
    shape: Sequence[int],
    fan_in: int,
    fan_out: int,
    device: Place = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a tensor with Glorot's uniform distribution."""
    fan = _positive_fan("fan_in + fan_out", fan_in + fan_out)
    bound = math.sqrt(3.0) * math.sqrt(2.0 / float(fan))
    return _empty(shape, device, dtype).uniform_(-bound, bound)


def xavier_normal(
    shape: Sequence[int],
    fan_in: int,
    fan_out: int,
    device: Place = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a tensor with Glorot's normal distribution."""
    fan = _positive_fan("fan_in + fan_out", fan_in + fan_out)
    return _empty(shape, device, dtype).normal_(0, math.sqrt(2.0 / float(fan)))


def uniform(
    shape: Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    device: Place = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a tensor with values between `low` and `high`."""
    return _empty(shape, device, dtype).uniform_(low, high)


def normal(
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    device: Place = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a tensor with normally distributed values."""
    return _empty(shape, device, dtype).normal_(mean, std)


def uniform_bias(
    fan_in: int, shape: Sequence[int], device: Place = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return a bias as `nn.Linear` and the convolutions draw it: `-1/sqrt(fan_in)` to its opposite."""
    bound = 1 / math.sqrt(_positive_fan("fan_in", fan_in))
    return _empty(shape, device, dtype).uniform_(-bound, bound)


def orthogonal(
    shape: Sequence[int], gain: float = 1.0, device: Place = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return a matrix whose rows or columns, whichever are fewer, are orthonormal times `gain`.

    Raises:
        ValueError: the shape has fewer than two dimensions.
    """
    return torch.nn.init.orthogonal_(_empty(shape, device, dtype), gain)


def trunc_normal(
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    device: Place = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return normally distributed values between `mean + a * std` and `mean + b * std`.

    Unlike `torch.nn.init.trunc_normal_`, `a` and `b` count standard deviations; values outside are drawn
    again, not clamped.
    """
    empty = _empty(shape, device, dtype)
    return torch.nn.init.trunc_normal_(empty, mean, std, mean + a * std, mean + b * std)


def set_data(parameter: Tensor, value: Tensor) -> None:
    """Put values into a parameter, without autograd.

    Raises:
        ValueError: the shapes differ.
    """
    if parameter.shape != value.shape:
        raise ValueError(
            f"the parameter has shape {tuple(parameter.shape)}, the values {tuple(value.shape)}"
        )
    with torch.no_grad():
        parameter.copy_(value)
