"""Evaluation after an epoch: the model in eval mode, no gradients, means weighted by batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import torch
from torch import Tensor, nn

from flodl.data.batch import Batch
from flodl.errors import TrainingError
from flodl.step.ema import Ema
from flodl.step.recipe import Precision, TrainFn
from flodl.train.protocols import Source
from flodl.train.scalars import drain_scalars

EvalFn: TypeAlias = "TrainFn | Callable[[Any, Any], Mapping[str, Tensor | float]]"

_END: Final = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Data and settings of an evaluation.

    Attributes:
        source: the batches; all of epoch 0, every time.
        fn: `fn(model, batch)` returns a loss, `(loss, {"name": value})`, or the table alone.
        ema: averages to evaluate in place of the weights.
        precision: the precision of the training.
        device: the device of the training.
        prefix: the beginning of the names of the metrics.
    """

    source: Source
    fn: EvalFn
    ema: Ema | None
    precision: Precision | None
    device: torch.device
    prefix: str = "val_"

    def run(
        self,
        model: nn.Module,
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> dict[str, float]:
        """Evaluate and return the means by name.

        `interruptible()` is the scope of the code of the user, which a signal may end at once.  The mode
        of the model and its averaged weights are switched outside of it, where no signal is obeyed.

        Raises:
            TrainingError: the function returns something else than numbers.
        """
        sums: dict[str, Tensor | float] = {}
        weights: dict[str, int] = {}
        batches = self.source.epoch(0)
        try:
            with self.in_place(model):
                while True:
                    with interruptible():
                        batch = next(batches, _END)
                    if batch is _END:
                        break
                    with autocast_of(self.precision, self.device), interruptible():
                        values = _table(self.fn(model, batch))
                    size = size_of(batch)
                    for name, value in values.items():
                        _require_one_number(name, value)
                        held = value.detach().double() if isinstance(value, Tensor) else value
                        sums[name] = sums.get(name, 0.0) + held * size
                        weights[name] = weights.get(name, 0) + size
        finally:
            batches.close()
        found = {self.prefix + name: float(sums[name]) / weights[name] for name in sums}
        for name, recorded in drain_scalars().items():
            found[self.prefix + name] = sum(recorded) / len(recorded)
        return found

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Put the model into eval mode with the weights that are evaluated, without gradients."""
        with in_eval_mode(model), self._weights(), torch.no_grad():
            yield

    def values_of(self, model: nn.Module, batch: Any) -> tuple[dict[str, float], int]:
        """Return the values of one batch by name, and its size; to be called `in_place`.

        Raises:
            TrainingError: the function returns something else than numbers.
        """
        with autocast_of(self.precision, self.device):
            values = _table(self.fn(model, batch))
        for name, value in values.items():
            _require_one_number(name, value)
        return {name: float(value) for name, value in values.items()}, size_of(batch)

    def means_of(self, batches: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Return the means by name, given `values`, `size` and `recorded` of each batch in order."""
        sums: dict[str, float] = {}
        weights: dict[str, int] = {}
        recorded: dict[str, list[float]] = {}
        for batch in batches:
            for name, value in batch["values"].items():
                sums[name] = sums.get(name, 0.0) + value * batch["size"]
                weights[name] = weights.get(name, 0) + batch["size"]
            for name, values in batch["recorded"].items():
                recorded.setdefault(name, []).extend(values)
        found = {self.prefix + name: sums[name] / weights[name] for name in sums}
        found.update(
            {self.prefix + name: sum(values) / len(values) for name, values in recorded.items()}
        )
        return found

    def _weights(self) -> AbstractContextManager[None]:
        return self.ema.applied() if self.ema else nullcontext()


def autocast_of(
    precision: Precision | None, device: torch.device
) -> AbstractContextManager[object]:
    """Return the scope in which a model computes in a precision."""
    if precision is None:
        return nullcontext()
    return torch.autocast(
        device.type, dtype={"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    )


def _table(result: Any) -> Mapping[str, Tensor | float]:
    if isinstance(result, Mapping):
        return result
    if isinstance(result, tuple):
        loss, others = result
        return {"loss": loss, **others}
    if isinstance(result, Tensor | float):
        return {"loss": result}
    raise TrainingError(
        f"the evaluation function returned {type(result).__name__}; "
        'return a loss, (loss, {"name": value}), or the table alone'
    )


def _require_one_number(name: str, value: Tensor | float) -> None:
    if isinstance(value, Tensor) and value.numel() != 1:
        raise TrainingError(
            f"the evaluation function returned {name!r} with the shape {list(value.shape)}; return one "
            "number, such as its mean"
        )


def size_of(batch: Any) -> int:
    """Return the number of samples of a batch: the first dimension of its first tensor, else 1."""
    if isinstance(batch, Tensor):
        return batch.shape[0] if batch.dim() else 1
    parts: Any = ()
    if isinstance(batch, Batch):
        parts = batch.tensors
    elif isinstance(batch, Mapping):
        parts = batch.values()
    elif isinstance(batch, list | tuple):
        parts = batch
    for part in parts:
        if isinstance(part, Tensor | list | tuple | Mapping):
            return size_of(part)
    return 1


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode, and afterwards give every module back the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
