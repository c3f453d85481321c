"""Diagnosis of a loss that is not finite: the batch, the parameters, the gradients, the module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flodl.data.batch import Batch
from flodl.errors import NonFiniteError
from flodl.train.training import Training


def non_finite(
    training: Training, value: float, *, behind: int, batch: Any, advice: str = ""
) -> NonFiniteError:
    """Return the error for a bad loss.

    Args:
        training: the training.
        value: the loss.
        behind: how many steps ago it was; later ones were taken on top of it.
        batch: its batch, if `behind` is 0.
        advice: the next action for the user.
    """
    step, position = training.step - 1 - behind, training.position - 1 - behind
    where = f"the loss of step {step} (epoch {training.epoch}, batch {position}) is {value}"
    lines, culprits = [], []
    if behind:
        lines.append(
            f"it was noticed {behind} steps later, when losses were fetched from the device"
        )
    lines += [f"the batch itself: {each}" for each in _bad_inputs(batch)]
    gradients = [name for name, each in _gradients(training.model) if not finite(each)]
    weights = [name for name, each in training.model.named_parameters() if not finite(each)]
    buffers = [name for name, each in training.model.named_buffers() if not finite(each)]
    for kind, names in (("gradient", gradients), ("parameter", weights), ("buffer", buffers)):
        if names:
            lines.append(_listed(kind, names))
            culprits += [name for name in names if name not in culprits]
    if not lines:
        lines.append(
            "the batch, all parameters and all gradients are finite: it comes from the loss function"
        )
    if advice:
        lines.append(advice)
    return NonFiniteError(
        "\n".join([where, *(f"  {line}" for line in lines)]),
        epoch=training.epoch,
        step=step,
        position=position,
        culprits=tuple(culprits),
    )


def weights_not_finite(training: Training, model: nn.Module, *, rank: int) -> NonFiniteError:
    """Return the error of a rank whose weights are not finite, where every loss of its window was."""
    names = [name for name, each in model.named_parameters() if not finite(each)]
    return NonFiniteError(
        f"rank {rank}: the weights are not finite after step {training.step - 1} (epoch {training.epoch}), "
        f"and all losses of the window are\n  the first parameter that is not finite is `{names[0]}`, of "
        f"{len(names)}; lower the learning rate, or clip with .max_grad_norm(1.0)",
        epoch=training.epoch,
        step=training.step - 1,
        position=training.position - 1,
        culprits=tuple(names),
    )


def finite(value: Tensor) -> bool:
    """Return whether no number is infinite or not a number."""
    if not (value.is_floating_point() or value.is_complex()):
        return True
    return bool(torch.isfinite(value.detach()).all())


def _gradients(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, each in model.named_parameters():
        if each.grad is not None:
            yield name, each.grad


def _listed(kind: str, names: list[str]) -> str:
    first = f"the first {kind} that is not finite is `{names[0]}`"
    return first + (f", and {len(names) - 1} more up to `{names[-1]}`" if len(names) > 1 else "")


def _bad_inputs(batch: Any) -> Iterator[str]:
    for name, each in _parts(batch):
        if isinstance(each, Tensor) and not finite(each):
            count = int((~torch.isfinite(each)).sum())
            yield f"{count} of {each.numel()} values of `{name}` are not finite"


def _parts(batch: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(batch, Tensor):
        yield "batch", batch
    elif isinstance(batch, Batch):
        yield from zip(batch.names, batch.tensors, strict=True)
    elif isinstance(batch, Mapping):
        yield from ((str(name), each) for name, each in batch.items())
    elif isinstance(batch, list | tuple):
        yield from ((str(index), each) for index, each in enumerate(batch))
