"""The parts of a step as arithmetic on tensors: forward, loss and backward; clip, update and averages.

A step that updates after every batch is one part, `whole`.  One that gathers gradients first, or scales its
losses, has two, because what comes between them is decided in Python: whether to update yet, and whether
the gradients are finite.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch

from flodl.step.recipe import loss_and_metrics
from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from flodl.step.binding import Binding
    from flodl.step.rules import Flags

Part: TypeAlias = Literal["whole", "gather", "update"]


def whole(
    binding: Binding, numbers: Tensor, batch: Any, flags: Flags, names: list[str]
) -> list[Tensor]:
    """Forward, loss, backward, clip, update, averages: return loss, metrics and the norm, if it clips."""
    loss, outputs = _forward(binding, batch, names)
    gradients = _gradients(loss, binding)
    with torch.no_grad():
        return [*outputs, *_updated(binding, gradients, numbers, flags)]


def gather(
    binding: Binding, held: Sequence[Tensor], numbers: Tensor, batch: Any, names: list[str]
) -> list[Tensor]:
    """Forward, loss, backward of the share that `numbers` names, added to the gradients that are held.

    Returns:
        Loss and metrics; with scaled losses, last, whether a held gradient is not finite.
    """
    loss, outputs = _forward(binding, batch, names)
    share = numbers[0].to(loss.dtype)
    gradients = _gradients(loss * share, binding)
    with torch.no_grad():
        for each, gradient in zip(held, gradients, strict=True):
            each.add_(gradient)
        if binding.recipe.scaled:
            broken = torch.stack([each.isfinite().logical_not().any() for each in held])
            outputs.append(broken.any())
    return outputs


def update(
    binding: Binding, held: Sequence[Tensor], numbers: Tensor, flags: Flags
) -> list[Tensor]:
    """Clip, update and average with the gradients that are held, and make those zero.

    Returns:
        The norm, if it clips.
    """
    with torch.no_grad():
        gradients: Sequence[Tensor] = held
        if binding.recipe.scaled:
            # The last of the numbers takes the scale of the losses back.
            gradients = [each * numbers[-1] for each in held]
        outputs = _updated(binding, gradients, numbers, flags)
        for each in held:
            each.zero_()
    return outputs


def _forward(binding: Binding, batch: Any, names: list[str]) -> tuple[Tensor, list[Tensor]]:
    recipe = binding.recipe
    with recipe.autocast() or nullcontext():
        loss, metrics = loss_and_metrics(recipe.train_fn(recipe.model, batch))
    names.extend(metrics)
    return loss, [loss.detach(), *(each.detach() for each in metrics.values())]


def _gradients(loss: Tensor, binding: Binding) -> tuple[Tensor, ...]:
    found: Sequence[Tensor | None] = torch.autograd.grad(loss, binding.trained, allow_unused=True)
    given = tuple(each for each in found if each is not None)
    if len(given) < len(found):
        missing = next(t for t, each in zip(binding.trained, found, strict=True) if each is None)
        raise RefusedStepError(
            f"the loss does not depend on `{binding.names[id(missing)]}` of the model that "
            "train_fn is given"
        )
    return given


def _updated(
    binding: Binding, gradients: Sequence[Tensor], numbers: Tensor, flags: Flags
) -> list[Tensor]:
    recipe, outputs = binding.recipe, []
    if recipe.clip_norm is not None:
        norm, gradients = _clipped(gradients, recipe.clip_norm, binding.model_order)
        outputs.append(norm)
    _apply(binding, gradients, numbers, flags)
    if recipe.ema is not None:
        averages, parameters = recipe.ema.pairs()
        for average, parameter in zip(averages, parameters, strict=True):
            average.lerp_(parameter, 1.0 - recipe.ema.decay)
    return outputs


def _clipped(
    gradients: Sequence[Tensor], limit: float, order: Sequence[int]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    norms = torch.stack([torch.linalg.vector_norm(gradients[number]) for number in order])
    total = torch.linalg.vector_norm(norms)
    factor = torch.clamp(limit / (total + 1e-6), max=1.0)
    return total, tuple(each * factor for each in gradients)


def _apply(binding: Binding, gradients: Sequence[Tensor], numbers: Tensor, flags: Flags) -> None:
    each_number = numbers.unbind()
    start = 0
    groups = binding.recipe.optimizer.param_groups
    for cohort, assumed in zip(binding.cohorts, flags, strict=True):
        count = len(binding.rule.host(groups[cohort.group], cohort.clock)[1])
        mine = each_number[start : start + count]
        start += count
        for member in cohort.members:
            binding.rule.update(
                binding.trained[member],
                gradients[member],
                binding.states[member],
                mine,
                assumed,  # type: ignore[arg-type]
            )
