"""Equal values for uninitialised memory everywhere, so that repeated results can be compared.

`torch.empty` returns the old content of the memory. A layer that never fills its weights (it expects a
checkpoint) would differ from itself, or compute nothing but NaN.
"""

from __future__ import annotations

import functools
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

_BLANK = frozenset({
    torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
})  # fmt: skip
_RANGE = 0.1
_PERIOD = 4093


@final
class BlankMemory(TorchFunctionMode):
    """Fills new tensors without initial values with small ones, which are drawn from no generator."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function, and fill what it leaves open."""
        del types
        made = func(*args, **(kwargs or {}))
        return _filled(made) if func in _BLANK else made


def _filled(made: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        if made.is_meta or made.numel() == 0:
            return made
        if not made.is_floating_point():
            return made.zero_()
        if made.numel() <= _PERIOD or not made.is_contiguous() or made.device.type != "cpu":
            values = torch.linspace(-_RANGE, _RANGE, made.numel(), device=made.device)
            return made.copy_(values.view(made.shape))
        # A copied pattern: most memory gets its weights next, and large models have much of it. Its length
        # is a prime, so no two rows of a weight are the same.
        pattern = _pattern(made.dtype)
        flat, whole = made.view(-1), made.numel() // _PERIOD * _PERIOD
        flat[:whole].view(-1, _PERIOD).copy_(pattern)
        flat[whole:].copy_(pattern[: made.numel() - whole])
        return made


@functools.lru_cache(maxsize=16)
def _pattern(dtype: torch.dtype) -> torch.Tensor:
    values = torch.linspace(-_RANGE, _RANGE, _PERIOD, dtype=torch.float64, device="cpu")
    return values.to(dtype)
