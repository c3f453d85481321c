"""Operations on tensors that patches of user code do not reach.

Libraries replace methods of `torch.Tensor`, functions of `torch`, and leave modes switched on. The proof
must not depend on that: everything here is bound before user code runs, to classes of C that cannot be
changed.

Example:
    >>> import torch
    >>> from flodl_verify.values import raw
    >>> before, torch.Tensor.detach = torch.Tensor.detach, lambda self: torch.zeros(1)
    >>> raw.dense(torch.ones(2))
    tensor([1., 1.])
    >>> torch.Tensor.detach = before
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

_BASE: Any = torch._C.TensorBase
_FUNCTIONS: Any = torch._C._VariableFunctions
_ENGINE: Any = torch.autograd.Variable._execution_engine
_RUN_BACKWARD = _ENGINE.run_backward
_NO_OVERRIDES = torch._C.DisableTorchFunction
_NUM_MODES: Any = torch._C._len_torch_dispatch_stack
_SET_GRAD: Any = torch._C._set_grad_enabled
_IS_GRAD: Any = torch.is_grad_enabled
_STRIDED = torch.strided
_CONTIGUOUS = torch.contiguous_format

layout = _BASE.layout.__get__
shape = _BASE.shape.__get__
dtype = _BASE.dtype.__get__
device = _BASE.device.__get__
requires_grad = _BASE.requires_grad.__get__
is_nested = _BASE.is_nested.__get__
is_quantized = _BASE.is_quantized.__get__
is_meta = _BASE.is_meta.__get__
grad = _BASE.grad.__get__
set_grad = _BASE.grad.__set__
stride = _BASE.stride
numel = _BASE.numel
element_size = _BASE.element_size
unbind = _BASE.unbind
int_repr = _BASE.int_repr
q_scale = _BASE.q_scale
to_dense = _BASE.to_dense
clone = _BASE.clone
mul = _FUNCTIONS.mul
mul_ = _BASE.mul_
add_ = _BASE.add_
copy_ = _BASE.copy_


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep overrides of subclasses and modes out of the block."""
    with _NO_OVERRIDES():
        if _NUM_MODES():
            with _disable_current_modes():
                yield
        else:
            yield


@contextlib.contextmanager
def without_gradients() -> Iterator[None]:
    """Record no operation of the block, and keep overrides and modes out of it."""
    before = _IS_GRAD()
    _SET_GRAD(False)
    try:
        with undisturbed():
            yield
    finally:
        _SET_GRAD(before)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a tensor without gaps and without a graph; the memory may be its own."""
    with undisturbed():
        plain = _BASE.detach(tensor)
        if _BASE.is_quantized.__get__(plain):
            return _BASE.int_repr(plain)  # type: ignore[no-any-return]
        if layout(plain) != _STRIDED:
            plain = _BASE.to_dense(plain)
        plain = _BASE.resolve_neg(_BASE.resolve_conj(plain))
        return _BASE.contiguous(plain)  # type: ignore[no-any-return]


def dense_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return the numbers of a tensor in memory which no later write can reach."""
    with undisturbed():
        if is_nested(tensor):
            parts = [_BASE.reshape(part, -1) for part in unbind(_BASE.detach(tensor))]
            return _FUNCTIONS.cat(parts)  # type: ignore[no-any-return]
        plain = dense(tensor)
        shares = _BASE.data_ptr(plain) == address(tensor)
        return _BASE.clone(plain, memory_format=_CONTIGUOUS) if shares else plain


def address(tensor: torch.Tensor) -> int:
    """Return where the numbers of a tensor begin, or 0 where it has none."""
    try:
        return int(_BASE.data_ptr(tensor))
    except RuntimeError:
        return 0


def storage_address(tensor: torch.Tensor) -> int:
    """Return where the memory of a tensor begins, or 0 where it has none to share."""
    if layout(tensor) != _STRIDED or is_nested(tensor) or is_meta(tensor):
        return 0
    try:
        return int(_STORAGE_ADDRESS(_BASE.untyped_storage(tensor)))
    except RuntimeError:
        return 0


def memory_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a dense CPU tensor, which must live as long as it is used."""
    size = numel(tensor) * element_size(tensor)
    if not size:
        return memoryview(b"")
    return memoryview((_CHAR * size).from_address(_BASE.data_ptr(tensor))).cast("B")


def backward(loss: torch.Tensor) -> None:
    """Run the backward pass of a scalar, past replacements of `torch.autograd.backward`."""
    ones = _FUNCTIONS.ones_like(loss, memory_format=_PRESERVE)
    _RUN_BACKWARD((loss,), (ones,), False, False, (), allow_unreachable=True, accumulate_grad=True)


def weighted_sum(tensor: torch.Tensor, weights: torch.Tensor, divisor: float) -> torch.Tensor:
    """Return the sum of a tensor times weights, divided; it can be differentiated."""
    with undisturbed():
        total = _BASE.sum(_FUNCTIONS.mul(tensor, weights))
        return _BASE.div(total, divisor)  # type: ignore[no-any-return]


def differentiable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as a dense real one, through operations that can be differentiated."""
    with undisturbed():
        if layout(tensor) != _STRIDED:
            tensor = _BASE.to_dense(tensor)
        return _FUNCTIONS.view_as_real(tensor) if _BASE.is_complex(tensor) else tensor


def named_modules(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield every module once with its path, in the order of torch, past overrides of a class."""
    seen: set[int] = set()
    pending = [("", root)]
    while pending:
        path, module = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        prefix = f"{path}." if path else ""
        children = [
            (prefix + name, child)
            for name, child in _ATTRIBUTES(module)["_modules"].items()
            if child is not None
        ]
        pending += reversed(children)


def named_parameters(root: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield every parameter once with its path, in the order of torch."""
    return _named(root, "_parameters")


def named_buffers(root: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every buffer once with its path, in the order of torch."""
    return _named(root, "_buffers")


def _named(root: nn.Module, table: str) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for path, module in named_modules(root):
        prefix = f"{path}." if path else ""
        for name, item in _ATTRIBUTES(module)[table].items():
            if item is not None and id(item) not in seen:
                seen.add(id(item))
                yield prefix + name, item


def stop_tracing() -> None:
    """Switch off trace and profile functions, which could change what is done here."""
    _SET_TRACE(None)
    _SET_PROFILE(None)


# Of TorchScript, `vars` shows other tables with the same methods.
_ATTRIBUTES: Any = vars
_CHAR = ctypes.c_char
_PRESERVE = torch.preserve_format
_STORAGE_ADDRESS: Any = torch._C.StorageBase.data_ptr  # type: ignore[attr-defined]
_SET_TRACE, _SET_PROFILE = sys.settrace, sys.setprofile
