"""The eager step, as a hand-written loop would run it: operation by operation."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, final

import torch
from torch import nn

from flodl.nn.parameters import ModelOrder
from flodl.step.recipe import Recipe, loss_and_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from flodl.step.accumulation import Accumulation


@final
class EagerStep:
    """Forward, loss, backward, and after `accumulate` batches: unscale, clip, update, average.

    Nothing here waits for the device.

    Attributes:
        position: how many batches of the accumulation are gathered.
        elsewhere: holds what compiled steps have gathered, until `collect`.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.position = 0
        self.elsewhere: Accumulation | None = None
        self.scaler = recipe.loss_scaler()
        self.metrics: Mapping[str, Tensor] = {}
        self.gradient_norm: Tensor | None = None
        self._model_order = ModelOrder(recipe.model)

    def __call__(self, batch: Any) -> Tensor:
        """Run one batch and return its loss."""
        recipe = self.recipe
        self.collect()
        if self.position == 0:
            recipe.optimizer.zero_grad(set_to_none=True)
        loss = self.gather(batch)
        self.position += 1
        if self.position == recipe.accumulate:
            self.update()
        return loss

    def gather(self, batch: Any) -> Tensor:
        """Add the gradients of one batch to those of the parameters, and return its loss."""
        recipe = self.recipe
        with recipe.autocast() or nullcontext():
            loss, metrics = loss_and_metrics(recipe.train_fn(recipe.model, batch))
        shared = loss if recipe.accumulate == 1 else loss / recipe.accumulate
        if self.scaler is not None:
            shared = self.scaler.scale(shared)
        torch.autograd.backward(shared)
        self.metrics = {name: each.detach() for name, each in metrics.items()}
        return loss.detach()

    def update(self) -> None:
        """End the accumulation: clip, update the parameters and the averages."""
        recipe = self.recipe
        self.collect()
        self.position = 0
        if recipe.clip_norm is not None:
            if self.scaler is not None:
                # The limit is meant for the true gradients, not for the scaled ones.
                self.scaler.unscale_(recipe.optimizer)
            clipped = self._model_order(recipe.trained())
            self.gradient_norm = nn.utils.clip_grad_norm_(clipped, recipe.clip_norm)
        if self.scaler is None:
            recipe.optimizer.step()
        else:
            self.scaler.step(recipe.optimizer)
            self.scaler.update()
        if recipe.ema is not None:
            recipe.ema.update()

    def collect(self) -> None:
        """Let parameters have the gradients that compiled steps have gathered."""
        if self.elsewhere is not None and self.position:
            self.elsewhere.give_back()
        self.elsewhere = None

    def rescale(self, broken: Tensor) -> None:
        """Let the scale of the losses follow from whether an update had to be skipped."""
        scaler = self.scaler
        assert scaler is not None
        scale, growth_tracker = scaler._scale, scaler._growth_tracker
        assert scale is not None
        assert growth_tracker is not None
        torch._amp_update_scale_(
            scale,
            growth_tracker,
            broken.float(),
            scaler.get_growth_factor(),
            scaler.get_backoff_factor(),
            scaler.get_growth_interval(),
        )

    def gradients(self) -> list[Tensor | None]:
        """Return copies of what an unfinished accumulation has gathered."""
        self.collect()
        held = self.recipe.trained()
        return [None if each.grad is None else each.grad.detach().clone() for each in held]

    def restore(self, position: int, gradients: list[Tensor | None]) -> None:
        """Continue an unfinished accumulation.

        Raises:
            ValueError: the gradients are those of another set of parameters.
        """
        self.elsewhere = None
        held = self.recipe.trained()
        if position and len(gradients) != len(held):
            raise ValueError(
                f"the saved accumulation has {len(gradients)} gradients, the optimizer {len(held)} parameters"
            )
        self.position = position
        for each, saved in zip(held, gradients, strict=False):
            each.grad = None if saved is None else saved.to(each.device, each.dtype, copy=True)
