"""Gradients of compiled steps over several batches, which eager steps can continue."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flodl.step.eager import EagerStep


@final
class Accumulation:
    """One buffer for the gradient of each trained parameter.

    Attributes:
        buffers: in the order of the parameters.
        clean: whether all of them are zero.
    """

    def __init__(self, trained: Sequence[Tensor]) -> None:
        self._trained = list(trained)
        self.buffers = [torch.zeros_like(each, requires_grad=False) for each in trained]
        self.clean = True

    def make_zero(self) -> None:
        """Forget what was gathered."""
        torch._foreach_zero_(self.buffers)
        self.clean = True

    def take_over(self, eager: EagerStep) -> None:
        """Gather here from now on, beginning with what eager steps have gathered so far."""
        if eager.elsewhere is self:
            return
        eager.collect()
        if not self.clean:
            self.make_zero()
        if eager.position:
            for buffer, each in zip(self.buffers, self._trained, strict=True):
                if each.grad is not None:
                    buffer.copy_(each.grad)
                    each.grad = None
            self.clean = False
        eager.elsewhere = self

    def give_back(self) -> None:
        """Let parameters have what was gathered here as their gradients."""
        for buffer, each in zip(self.buffers, self._trained, strict=True):
            each.grad = buffer.clone()
        self.make_zero()

    def norm(self, scale: float) -> Tensor:
        """Return the norm of all gradients, without the scale of the losses."""
        return torch.nn.utils.get_total_norm(self.buffers) / scale
