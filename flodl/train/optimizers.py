"""Optimizers from factories that take parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import optim

from flodl.errors import TrainingError

if TYPE_CHECKING:
    from torch import nn


def optimizer_of(factory: Any, model: nn.Module) -> optim.Optimizer:
    """Return the optimizer of a factory that takes parameters; an optimizer is its own factory."""
    if isinstance(factory, optim.Optimizer):
        return factory
    if not callable(factory):
        raise TrainingError(
            f"{type(factory).__name__} makes no optimizer: give a function of the parameters"
        )
    made = factory(list(model.parameters()))
    if not isinstance(made, optim.Optimizer):
        raise TrainingError(
            f"the optimizer factory returned {type(made).__name__}, not an optimizer"
        )
    return made
