"""The parts of a training step, independent of how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn, optim

from flodl.errors import TrainingError

if TYPE_CHECKING:
    from flodl.step.ema import Ema

TrainFn: TypeAlias = "Callable[[Any, Any], Tensor | tuple[Tensor, Mapping[str, Tensor]]]"
Precision: TypeAlias = Literal["bf16", "fp16"]
_DTYPES: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A model, its optimizer, the loss, and what happens between backward and update."""

    model: nn.Module
    optimizer: optim.Optimizer
    train_fn: TrainFn
    clip_norm: float | None = None
    precision: Precision | None = None
    accumulate: int = 1
    ema: Ema | None = None
    scaler: torch.amp.GradScaler | None = None

    def trained(self) -> list[Tensor]:
        """Return the parameters that the optimizer holds, in its order."""
        return [each for group in self.optimizer.param_groups for each in group["params"]]

    def loss_scaler(self) -> torch.amp.GradScaler | None:
        """Return the scaler of the loss: the one that was given, or one that `fp16` needs."""
        if self.scaler is None and self.precision == "fp16":
            return torch.amp.GradScaler(self.device().type)
        return self.scaler

    def device(self) -> torch.device:
        """Return the device that the step runs on."""
        for each in self.trained():
            return each.device
        return torch.device("cpu")

    @property
    def scaled(self) -> bool:
        """Whether losses are scaled, so that small gradients survive in half precision."""
        if self.scaler is not None:
            return self.scaler.is_enabled()
        return self.precision == "fp16"

    @property
    def in_parts(self) -> bool:
        """Whether Python decides between backward and update: to gather gradients, or skip the update."""
        return self.accumulate > 1 or self.scaled

    def autocast(self) -> torch.autocast | None:
        """Return a fresh scope of the wanted precision, or nothing for full precision."""
        if self.precision is None:
            return None
        return torch.autocast(self.device().type, dtype=_DTYPES[self.precision])


def loss_and_metrics(result: Any) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Take apart what a train function returned.

    Raises:
        TypeError: it is neither a loss nor a loss with metrics.
        TrainingError: the loss is not one number.
    """
    loss, metrics = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
    if not isinstance(loss, Tensor) or not isinstance(metrics, Mapping):
        raise TypeError(
            "train_fn(model, batch) must return the loss, or (loss, {name: tensor}); "
            f"it returned {type(result).__name__}"
        )
    require_one_number(loss)
    return loss, metrics


def require_one_number(loss: Tensor) -> None:
    """Refuse a loss of several numbers, of which no gradient can be taken.

    Raises:
        TrainingError: the loss has not exactly one element.
    """
    if loss.numel() != 1:
        raise TrainingError(
            f"the loss has the shape {list(loss.shape)}, and training needs one number; reduce it, for "
            "example with `loss.mean()` or `reduction='mean'`"
        )
