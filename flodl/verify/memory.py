"""The bytes of a tensor, without numpy: an environment that has only torch can verify too."""

from __future__ import annotations

import ctypes
import hashlib

import torch


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Return a copy of the memory of a contiguous CPU tensor."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def tensor_digest(tensor: torch.Tensor) -> bytes:
    """Return a digest of the memory of a contiguous CPU tensor, which is not copied."""
    size = tensor.numel() * tensor.element_size()
    return hashlib.sha256((ctypes.c_char * size).from_address(tensor.data_ptr())).digest()
