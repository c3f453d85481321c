"""Names around gradients: scopes and calls without recording."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

import torch
from torch import is_grad_enabled as is_grad_enabled

from flodl.tensor import Variable as Variable

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")
Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


@final
class _WatchedNoGrad(torch.no_grad):
    """A `torch.no_grad` that warns if it ends without having been entered."""

    _used = True  # until it is made: one whose construction failed was not forgotten

    def __init__(self) -> None:
        super().__init__()
        self._used = False

    def __enter__(self) -> None:
        self._used = True
        super().__enter__()

    def __call__(self, orig_func: Decorated) -> Decorated:
        self._used = True
        return super().__call__(orig_func)

    def __del__(self) -> None:
        if not self._used:
            warnings.warn(
                "a NoGradGuard was never entered, so gradients were recorded; write `with NoGradGuard():`",
                RuntimeWarning,
                stacklevel=2,
            )


def NoGradGuard() -> torch.no_grad:  # noqa: N802  # the name that ported code uses
    """Return a `torch.no_grad`: a `with` block in which no gradients are recorded, or a decorator.

    In Rust a guard works while its variable lives. In Python it works inside `with` only.

    Warns:
        RuntimeWarning: the guard was kept in a variable and never entered.

    Example:
        >>> weight = torch.ones(1, requires_grad=True)
        >>> with NoGradGuard():
        ...     (weight * 2).requires_grad
        False
    """
    # torch.compile knows its own scope and none that is made of it.
    return torch.no_grad() if torch.compiler.is_compiling() else _WatchedNoGrad()


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
