"""Names for torch's tensors, dtypes and devices, constructors from Python data, and ways out of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import torch
from torch import Tensor as Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@final
class DType:
    """torch's dtypes by name: `DType.Float32` is `torch.float32`."""

    Float16: Final = torch.float16
    BFloat16: Final = torch.bfloat16
    Float32: Final = torch.float32
    Float64: Final = torch.float64
    Int32: Final = torch.int32
    Int64: Final = torch.int64
    Bool: Final = torch.bool


@final
class Device:
    """torch's devices by name: `Device.CPU`, `Device.CUDA(0)`."""

    CPU: Final = torch.device("cpu")

    @staticmethod
    def CUDA(index: int = 0) -> torch.device:  # noqa: N802  # the name that ported code uses
        """Return a GPU by its index."""
        return torch.device("cuda", index)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TensorOptions:
    """A dtype and a device for constructors: `torch.zeros(3, **TensorOptions().kwargs())`."""

    dtype: torch.dtype = torch.float32
    device: torch.device = Device.CPU

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments of torch's constructors."""
        return {"dtype": self.dtype, "device": self.device}


def Variable(value: Tensor, requires_grad: bool = False) -> Tensor:  # noqa: N802
    """Return a leaf tensor that shares the values and optionally records gradients.

    Example:
        >>> x = Variable(torch.tensor([2.0]), requires_grad=True)
        >>> (x * x).sum().backward(); x.grad
        tensor([4.])
    """
    return value.detach().requires_grad_(requires_grad)


def _filled(
    data: Sequence[Any],
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device | str | None,
) -> Tensor:
    return torch.tensor(data, dtype=dtype, device=device).reshape(tuple(shape))


def from_f32(
    data: Sequence[float], shape: Sequence[int], device: torch.device | str | None = None
) -> Tensor:
    """Return a float32 tensor of that shape from a flat list.

    Example:
        >>> from_f32([1, 2, 3, 4], [2, 2])
        tensor([[1., 2.],
                [3., 4.]])
    """
    return _filled(data, shape, torch.float32, device)


def from_f64(
    data: Sequence[float], shape: Sequence[int], device: torch.device | str | None = None
) -> Tensor:
    """Return a float64 tensor of that shape from a flat list."""
    return _filled(data, shape, torch.float64, device)


def from_i64(
    data: Sequence[int], shape: Sequence[int], device: torch.device | str | None = None
) -> Tensor:
    """Return an int64 tensor of that shape from a flat list."""
    return _filled(data, shape, torch.int64, device)


def _listed(tensor: Tensor, dtype: torch.dtype) -> list[Any]:
    return tensor.detach().to(dtype=dtype, device="cpu").flatten().tolist()


def to_f32_vec(tensor: Tensor) -> list[float]:
    """Return all elements as a flat list of numbers with float32 precision."""
    return _listed(tensor, torch.float32)


def to_f64_vec(tensor: Tensor) -> list[float]:
    """Return all elements as a flat list of float64 numbers."""
    return _listed(tensor, torch.float64)


def to_i64_vec(tensor: Tensor) -> list[int]:
    """Return all elements as a flat list of integers."""
    return _listed(tensor, torch.int64)


def to_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the tensor in another dtype."""
    return tensor.to(dtype)


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on another device."""
    return tensor.to(device)


def to_device_of(tensor: Tensor, other: Tensor) -> Tensor:
    """Return the tensor on the device of another one."""
    return tensor.to(other.device)


def to_device_async(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on another device without waiting; the source must be pinned for that."""
    return tensor.to(device, non_blocking=True)


def to_channels_last(tensor: Tensor) -> Tensor:
    """Return images `[B, C, H, W]` with the channels of a pixel next to each other in memory."""
    return tensor.to(memory_format=torch.channels_last)


def is_channels_last(tensor: Tensor) -> bool:
    """Return whether the channels of a pixel are next to each other in memory."""
    return tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)


def batches(tensor: Tensor, n: int) -> Iterator[Tensor]:
    """Yield pieces of `n` rows; the last one may be smaller."""
    if n <= 0:
        raise ValueError(f"a batch has at least one row, got {n}")
    yield from torch.split(tensor, n)
