"""Gives memory that nobody initialised the same values everywhere: what is made twice can be compared.

`torch.empty` returns whatever the memory held before. A layer that never fills its weights (it expects a
checkpoint) would differ from itself, or compute nothing but NaN.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

_BLANK = frozenset({
    torch.empty, torch.empty_like, torch.empty_strided, torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
})  # fmt: skip
_RANGE = 0.1


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
        if made.dtype == torch.float32 and made.is_contiguous():  # most weights, without a copy
            torch.linspace(-_RANGE, _RANGE, made.numel(), device=made.device, out=made.view(-1))
            return made
        values = torch.linspace(-_RANGE, _RANGE, made.numel(), device=made.device)
        return made.copy_(values.view(made.shape))
