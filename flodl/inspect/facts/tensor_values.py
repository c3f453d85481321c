"""All values of the tensors of a model, packed for a page, within a limit on its size.

    weight  float32 [512, 256]  ->  524288 bytes, deflated, as base64
    weight  float32 [8192, 4096]  ->  left out: "128.0 MiB of values are left out: ..."

The smallest tensors come first, so that a page holds the values of as many as possible.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from flodl.checkpoint.tensors import as_bytes, memory_of, on_host
from flodl.inspect.heat import bytes_text
from flodl.visual.part import TensorValues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Weights = Literal["none", "small", "all"]
    Found = Mapping[nn.Module, Mapping[str, TensorValues]]

# The bytes of the values in one page. Browsers read a page of hundreds of megabytes slowly or not at all.
LIMITS: Final[Mapping[str, int]] = {"none": 0, "small": 1 << 20, "all": 128 << 20}
_SHOWN: Final = frozenset({
    torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32,
    torch.uint64, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128,
})  # fmt: skip
# Browsers have no arrays of these; a page has a table of their 256 values.
_IN_TABLES: Final = frozenset({
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
})  # fmt: skip


def values_of(module: nn.Module, weights: Weights) -> Found:
    """Return the values of the tensors of each module, or why they are left out.

    Args:
        module: the model.
        weights: which values a page holds: `none`, those of `small` tensors, or `all` within a limit.

    Raises:
        ValueError: there is no such choice.

    Example:
        >>> import torch
        >>> from flodl.inspect.facts.tensor_values import values_of
        >>> layer = torch.nn.Linear(4, 2)
        >>> values_of(layer, "none")[layer]["bias"].left_out[:25]
        '8 B of values are left ou'
    """
    if weights not in LIMITS:
        raise ValueError(f"weights={weights!r} is unknown: choose {', '.join(map(repr, LIMITS))}")
    packed: dict[object, tuple[str, bool]] = {}
    left = LIMITS[weights]
    found: dict[nn.Module, dict[str, TensorValues]] = {each: {} for each in module.modules()}
    for size, full, owner, name, tensor in sorted(_tensors(module), key=lambda each: each[:2]):
        reason = _obstacle(tensor)
        key: object = full if reason else memory_of(tensor) or full
        if not reason and key not in packed and size > left:
            reason = _beyond(size, weights)
        if not reason and key not in packed:
            left -= size
            packed[key] = _packed(tensor)
        data, is_packed = ("", False) if reason else packed[key]
        found[owner][name] = TensorValues(
            name=full,
            shape=tuple(tensor.shape),
            dtype=_word(tensor.dtype),
            data=data,
            packed=is_packed,
            table=_table(tensor.dtype) if not reason and tensor.dtype in _IN_TABLES else "",
            left_out=reason,
        )
    return found


def _tensors(module: nn.Module) -> Iterator[tuple[int, str, nn.Module, str, torch.Tensor]]:
    """Yield bytes, full name, owner and name of each tensor that has a shape."""
    for path, part in module.named_modules():
        own = (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False))
        for name, tensor in own:
            if not isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer)):
                size = tensor.numel() * tensor.element_size()
                yield size, f"{path}.{name}".lstrip("."), part, name, tensor


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _obstacle(tensor: torch.Tensor) -> str:
    """Return why the values of a tensor cannot be shown, empty if they can."""
    wraps: bool = is_traceable_wrapper_subclass(tensor)
    if wraps:
        return f"the values cannot be shown: a {type(tensor).__name__} wraps other tensors"
    if tensor.is_quantized:
        return f"the values cannot be shown: the tensor is quantized to {_word(tensor.dtype)}"
    if tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        return f"the values cannot be shown: the layout of the tensor is {layout}"
    if tensor.is_meta:
        return "the tensor is on the device meta, so it has no values"
    if tensor.dtype not in _SHOWN | _IN_TABLES:
        return f"the values cannot be shown: a page knows no {_word(tensor.dtype)}"
    return ""


def _beyond(size: int, weights: Weights) -> str:
    """Return that the values of a tensor are beyond the limit, and what shows them."""
    held = f"{bytes_text(size)} of values are left out: "
    most = bytes_text(LIMITS["all"]).replace(".0 ", " ")
    if weights == "all" or size > LIMITS["all"]:
        return f"{held}a page holds at most {most} of them"
    return f'{held}--weights all (in Python weights="all") writes up to {most} into the page'


def _packed(tensor: torch.Tensor) -> tuple[str, bool]:
    """Return the bytes of the values as base64, and whether they are deflated because that saves much."""
    held = as_bytes(on_host(tensor))
    packed = zlib.compress(held, 1)
    saves = len(packed) < 0.9 * len(held)
    return b64encode(packed if saves else held).decode(), saves


@cache
def _table(dtype: torch.dtype) -> str:
    """Return the values of all 256 bytes of a dtype as float32."""
    values = torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float32)
    return b64encode(as_bytes(on_host(values))).decode()
