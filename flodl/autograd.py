"""Names around gradients: scopes and calls without recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, overload

import torch
from torch import is_grad_enabled as is_grad_enabled

from flodl.tensor import Variable as Variable

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

NoGradGuard = torch.no_grad
"""`torch.no_grad`: a `with` block in which no gradients are recorded."""


@overload
def no_grad(fn: None = None) -> torch.no_grad: ...
@overload
def no_grad(fn: Callable[[], Result]) -> Result: ...
def no_grad(fn: Callable[[], Result] | None = None) -> Result | torch.no_grad:
    """Call `fn` without recording gradients and return its result; without `fn`, return the scope.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> no_grad(lambda: weight * 2).requires_grad
        False
        >>> with no_grad():
        ...     (weight * 2).requires_grad
        False
    """
    if fn is None:
        return torch.no_grad()
    with torch.no_grad():
        return fn()
