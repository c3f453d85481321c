"""Models in double precision: made with single precision, and turned into doubles before they run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from flodl_verify.sandbox.attempt import Failure

_SAME_TYPE = ("same dtype", "scalar type", "expected m1 and m2")


def wants_double(failure: Failure) -> bool:
    """Return True if a model refused single precision beside its own doubles."""
    text = failure.text.lower()
    return "double" in text and "float" in text and any(words in text for words in _SAME_TYPE)


def is_double(module: nn.Module) -> bool:
    """Return True if a module has numbers, and all of them are doubles."""
    held = (*nn.Module.parameters(module), *nn.Module.buffers(module))
    types = {item.dtype for item in held if item.is_floating_point()}
    return types == {torch.float64}


@contextlib.contextmanager
def numbers_in(*, double: bool) -> Iterator[None]:
    """Make new tensors of real numbers in double precision within the block, if wanted."""
    before = torch.get_default_dtype()
    if double:
        torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
