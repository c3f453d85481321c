"""The first difference of two results, down to the last bit: values, strides, types and attributes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)


class UncomparedError(TypeError):
    """Something that the comparison cannot look into."""


def difference(one: Any, two: Any, path: str = "result") -> str | None:
    """Return where and in what two results differ, `None` if they do not.

    Raises:
        UncomparedError: they hold something that is neither data nor an object with attributes.
    """
    return _difference(one, two, path, set())


def _difference(one: Any, two: Any, path: str, seen: set[tuple[int, int]]) -> str | None:
    if isinstance(one, _NAMED) and isinstance(two, _NAMED):
        names = [getattr(each, "__qualname__", repr(each)) for each in (one, two)]
        return None if names[0] == names[1] else f"{path}: {names[0]} against {names[1]}"
    if type(one).__qualname__ != type(two).__qualname__:
        return f"{path}: {type(one).__qualname__} against {type(two).__qualname__}"
    if isinstance(one, (*_PLAIN, Enum)):
        same = repr(one) == repr(two)
        return None if same else f"{path}: {one!r} against {two!r}"
    if (id(one), id(two)) in seen:
        return None
    seen.add((id(one), id(two)))
    if isinstance(one, torch.Tensor):
        return _of_tensors(one, two, path)
    return _of_parts(_parts(one, path), _parts(two, path), path, seen)


def _of_parts(
    one: list[tuple[str, Any]], two: list[tuple[str, Any]], path: str, seen: set[tuple[int, int]]
) -> str | None:
    names = [[name for name, _ in each] for each in (one, two)]
    if names[0] != names[1]:
        return f"{path}: {_short(names[0])} against {_short(names[1])}"
    for (name, left), (_, right) in zip(one, two, strict=True):
        found = _difference(left, right, f"{path}{name}", seen)
        if found is not None:
            return found
    return None


def _parts(value: Any, path: str) -> list[tuple[str, Any]]:
    """Return what a container or an object consists of, with names."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        found += [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple, deque)):
        found += [(f"[{index}]", item) for index, item in enumerate(value)]
    elif isinstance(value, (set, frozenset)):
        found += [("{}", item) for item in sorted(value, key=repr)]
    elif isinstance(value, nn.Module):
        found += [(f".{key}", item) for key, item in value.state_dict().items()]
        return found
    elif type(value).__module__ == "numpy":
        return [(".dtype", str(value.dtype)), (".shape", value.shape), (".data", value.tobytes())]
    known = getattr(value, "__dict__", None)
    if known is not None:
        found += [(f".{key}", item) for key, item in known.items()]
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        slots = (slots,) if isinstance(slots, str) else slots
        found += [(f".{key}", getattr(value, key, None)) for key in slots if key[:2] != "__"]
    if not found and known is None and not isinstance(value, (list, tuple, dict, set, deque)):
        raise UncomparedError(f"{path}: {type(value).__qualname__}")
    return found


def _of_tensors(one: torch.Tensor, two: torch.Tensor, path: str) -> str | None:
    for what in ("dtype", "shape", "layout", "device", "requires_grad", "is_leaf"):
        left, right = getattr(one, what), getattr(two, what)
        if left != right:
            return f"{path}.{what}: {left} against {right}"
    if one.layout is torch.strided and one.stride() != two.stride():
        return f"{path}.stride: {one.stride()} against {two.stride()}"
    if one.is_meta or same_bits(one.detach(), two.detach()):
        return None
    wrong = (one.detach() != two.detach()).sum()
    return f"{path}: {int(wrong)} of {one.numel()} values"


def same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Return True if two tensors of one dtype and shape have the same bits; NaN equals NaN."""
    if one.layout is not torch.strided:
        one, two = one.to_dense(), two.to_dense()
    if one.is_floating_point() or one.is_complex():
        # Which of two NaN an addition returns is no property of the program.
        missing = one.isnan()
        if not torch.equal(missing, two.isnan()):
            return False
        one, two = one.masked_fill(missing, 0), two.masked_fill(missing, 0)
    flat = [each.contiguous().reshape(-1).view(torch.uint8) for each in (one, two)]
    return torch.equal(*flat)


def _short(names: list[str]) -> str:
    text = ", ".join(names)
    return text if len(text) < 120 else text[:117] + "..."
