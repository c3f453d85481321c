"""`Ddp`: the earlier name of `Trainer` in the Rust framework."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, final

from flodl.train.trainer import Trainer

if TYPE_CHECKING:
    from torch import nn

    from flodl.step.recipe import TrainFn
    from flodl.train.builder import TrainerBuilder
    from flodl.train.session import TrainingSession


@final
class Ddp:
    """Old names of `Trainer.setup` and `Trainer.builder`; they warn and do the same.

    Example:
        >>> import warnings
        >>> import torch
        >>> from flodl import Ddp
        >>> with warnings.catch_warnings(record=True) as told:
        ...     warnings.simplefilter("always")
        ...     session = Ddp.setup(torch.nn.Linear(2, 1), lambda params: torch.optim.SGD(params, 0.1))
        >>> str(told[0].message)
        'Ddp.setup is called Trainer.setup now'
    """

    @staticmethod
    def setup(model: nn.Module, *factories: Any, **options: Any) -> TrainingSession:
        """Do what `Trainer.setup` does."""
        _warn("setup")
        return Trainer.setup(model, *factories, **options)

    @staticmethod
    def builder(model_factory: Any, optim_factory: Any, train_fn: TrainFn) -> TrainerBuilder:
        """Do what `Trainer.builder` does."""
        _warn("builder")
        return Trainer.builder(model_factory, optim_factory, train_fn)


def _warn(name: str) -> None:
    warnings.warn(f"Ddp.{name} is called Trainer.{name} now", DeprecationWarning, stacklevel=3)
