"""Tensors as bytes and back, without copies where the memory allows it."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Final

import torch

from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

DTYPES: Final[dict[str, torch.dtype]] = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64, "I64": torch.int64,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
    "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
CODES: Final[dict[torch.dtype, str]] = {dtype: code for code, dtype in DTYPES.items()}


def dtype_code(name: str, tensor: torch.Tensor) -> str:
    """Return the code of a tensor's dtype in the file.

    Raises:
        CheckpointError: the format has no such dtype or layout.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise CheckpointError(
            f"{name!r} is a {tensor.layout} tensor; save tensor.to_dense() instead"
        )
    if tensor.dtype not in CODES:
        raise CheckpointError(f"{name!r} has dtype {tensor.dtype}, which the format does not know")
    if tensor.is_meta:
        raise CheckpointError(f"{name!r} is on the meta device: it has no values to save")
    return CODES[tensor.dtype]


def memory_of(tensor: torch.Tensor) -> tuple[Hashable, ...] | None:
    """Return a key that two tensors share exactly when they are the same values in the same memory."""
    if tensor.is_meta or tensor.numel() == 0:
        return None
    return (
        tensor.device,
        tensor.data_ptr(),
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.is_conj(),
        tensor.is_neg(),
    )


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values in one piece in the memory of the host; the tensor itself if it is that already."""
    if sys.byteorder != "little":
        raise CheckpointError(
            "checkpoints are little-endian; this machine is not, and is not supported"
        )
    return tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()


def copies_on_host(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return copies that share nothing with the originals; tied values stay tied."""
    copies: dict[object, torch.Tensor] = {}
    found = {}
    for name, each in tensors.items():
        place = memory_of(each) or name
        if place not in copies:
            held = on_host(each)
            copies[place] = held.clone() if held.data_ptr() == each.data_ptr() else held
        found[name] = copies[place]
    return found


def as_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous host tensor; the view keeps the tensor alive."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    block: Any = (ctypes.c_ubyte * size).from_address(tensor.data_ptr())
    # A tensor from a GPU is copied to the host, and the view is all that the caller keeps of the copy.
    block.tensor = tensor
    return memoryview(block).cast("B")


def from_bytes(data: bytearray | memoryview, code: str, shape: Sequence[int]) -> torch.Tensor:
    """Return a tensor that shares writable bytes."""
    dtype = DTYPES[code]
    if len(data) == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(tuple(shape))
