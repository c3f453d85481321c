"""The result of a training: named weights that fit the model, and its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from flodl.observe.trend import Mode, Trend


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RankShare:
    """The part of one rank in an epoch that several ranks trained.

    Attributes:
        rank: the rank.
        batches: batches that it trained.
        busy: seconds of computation, without waiting for data or for other ranks.

    Example:
        >>> from flodl import RankShare
        >>> RankShare(rank=0, batches=50, busy=2.5).throughput
        20.0
    """

    rank: int
    batches: int
    busy: float

    @property
    def throughput(self) -> float:
        """Batches per second of computation."""
        return self.batches / self.busy if self.busy else 0.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """One window of a training on several devices, in numbers.

    Attributes:
        step: batches in total after it.
        seconds: time since the end of the window before. With policy Async, windows overlap: it may be
            shorter than the window was trained.
        loss: the mean loss over its batches; NaN without one.
        per_rank: the part of each rank that is alive.
        sync: seconds of the last sum over the ranks, 0 if it was not measured.
        drift: largest distance of a rank from the mean weights before, relative to the mean; 0 for policy
            Sync.
        anchor: batches or updates of the slowest rank that the next window is made for; 0 for policy Sync.

    Example:
        >>> from flodl import RankShare, WindowReport
        >>> ranks = (RankShare(rank=0, batches=10, busy=0.1), RankShare(rank=1, batches=4, busy=0.08))
        >>> report = WindowReport(step=14, seconds=0.1, loss=0.5, per_rank=ranks)
        >>> round(report.share_of_ideal, 3), report.numbers()["rank1/wait"]
        (0.933, 0.020000000000000004)
    """

    step: int
    seconds: float
    loss: float
    per_rank: tuple[RankShare, ...]
    sync: float = 0.0
    drift: float = 0.0
    anchor: int = 0

    @property
    def share_of_ideal(self) -> float:
        """Part of the batches that the ranks could have trained if none had waited; 0 if unknown."""
        # A window takes at least the time of its busiest rank, also if it began before the last one ended.
        longest = max([each.busy for each in self.per_rank], default=0.0)
        return _share(self.per_rank, max(self.seconds, longest))

    def numbers(self) -> dict[str, float]:
        """Return the values that a monitor shows, by name."""
        found = {"loss": self.loss, "team/size": float(len(self.per_rank))}
        found |= {"team/share": self.share_of_ideal, "team/sync": self.sync}
        if self.anchor:
            found |= {"team/anchor": float(self.anchor), "team/drift": self.drift}
        for each in self.per_rank:
            wait = max(0.0, self.seconds - each.busy - self.sync)
            name = f"rank{each.rank}"
            found |= {f"{name}/batches": float(each.batches), f"{name}/busy": each.busy}
            found |= {f"{name}/wait": wait}
        return found


def _share(ranks: tuple[RankShare, ...], seconds: float) -> float:
    rate = sum(each.throughput for each in ranks)
    batches = sum(each.batches for each in ranks)
    return batches / (seconds * rate) if rate and seconds else 0.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """An evaluation on request, within an epoch.

    Attributes:
        epoch: which one, from 0.
        step: batches in total before it.
        scalars: the means by name, `val_...`.

    Example:
        >>> from flodl import EvaluationReport
        >>> print(EvaluationReport(epoch=0, step=120, scalars={"val_loss": 0.25}))
        evaluated at step 120: val_loss 0.25
    """

    epoch: int
    step: int
    scalars: Mapping[str, float]

    def __str__(self) -> str:
        values = "  ".join(f"{name} {value:.4g}" for name, value in self.scalars.items())
        return f"evaluated at step {self.step}: {values}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMetrics:
    """One epoch in numbers.

    Attributes:
        epoch: which one, from 0.
        avg_loss: the mean loss over its steps.
        scalars: all means by name: `loss`, what the train function returned or recorded, `val_...`.
        lr: the learning rate of the first group at its end.
        steps: steps (batches) taken.
        seconds: how long training took, evaluation not counted.
        device_indices: the devices that took part.
        per_rank: what each rank did, if several shared the batches.

    Example:
        >>> from flodl import EpochMetrics
        >>> EpochMetrics(epoch=0, avg_loss=0.5, steps=100, seconds=2.0).steps_per_second
        50.0
    """

    epoch: int
    avg_loss: float
    scalars: Mapping[str, float] = field(default_factory=dict)
    lr: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    device_indices: tuple[int, ...] = ()
    per_rank: tuple[RankShare, ...] = ()

    @property
    def per_rank_throughput(self) -> dict[int, float]:
        """Batches per second of computation of each rank."""
        return {each.rank: each.throughput for each in self.per_rank}

    @property
    def per_rank_batch_share(self) -> dict[int, float]:
        """Part of the batches that each rank trained; together 1."""
        total = sum(each.batches for each in self.per_rank)
        return {each.rank: each.batches / total for each in self.per_rank} if total else {}

    @property
    def share_of_ideal(self) -> float:
        """Part of the batches that the ranks could have trained if none ever waited; 0 if unknown."""
        return _share(self.per_rank, self.seconds)

    @property
    def epoch_ms(self) -> float:
        """The time of the training, in milliseconds."""
        return self.seconds * 1000.0

    @property
    def steps_per_second(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds if self.seconds else 0.0


def report_of(plain: Mapping[str, Any]) -> WindowReport:
    """Return the window of which `dataclasses.asdict` made plain values, which may have been JSON since."""
    return WindowReport(**_with_ranks(plain))


def metrics_of(plain: Mapping[str, Any]) -> EpochMetrics:
    """Return the epoch of which `dataclasses.asdict` made plain values, which may have been JSON since."""
    indices = tuple(plain["device_indices"])
    return EpochMetrics(**{**_with_ranks(plain), "device_indices": indices})


def _with_ranks(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {**plain, "per_rank": tuple(RankShare(**each) for each in plain["per_rank"])}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedState:
    """The end of a training: weights by name on the host, and its history.

    Attributes:
        parameters: the parameters by name.
        buffers: the buffers by name.
        averages: averaged parameters by name, if they were kept (`ema`).
        history: one entry per epoch of this process.
        epochs: epochs that are finished, in total.
        steps: steps that were taken, in total.
        stopped_by: `finished`, or why the training ended before its last epoch.
        decision: how steps were run, in one line.
        checkpoint: the last checkpoint, if there is a run directory.
        notices: the notices on the way.

    Example:
        >>> import torch
        >>> from flodl import Trainer
        >>> data = [torch.ones(4, 2)] * 8
        >>> def train_step(model, batch):
        ...     return (model(batch) - 1).square().mean()
        >>> state = (
        ...     Trainer.builder(lambda: torch.nn.Linear(2, 1), lambda p: torch.optim.SGD(p, 0.1), train_step)
        ...     .dataset(data).num_epochs(3).step("eager").progress(False).run().join()
        ... )
        >>> model = state.load_into(torch.nn.Linear(2, 1))
        >>> state.epochs, state.steps, state.stopped_by, sorted(state.parameters)
        (3, 24, 'finished', ['bias', 'weight'])
    """

    parameters: Mapping[str, Tensor]
    buffers: Mapping[str, Tensor]
    averages: Mapping[str, Tensor] = field(default_factory=dict)
    history: tuple[EpochMetrics, ...] = ()
    epochs: int = 0
    steps: int = 0
    stopped_by: str = "finished"
    decision: str = ""
    checkpoint: Path | None = None
    notices: tuple[str, ...] = ()

    def load_into(self, model: nn.Module, *, averaged: bool = False) -> nn.Module:
        """Write the weights into a model of the same structure and return it.

        Args:
            model: the model; it stays on its device.
            averaged: take the averaged weights where there are some.

        Raises:
            RuntimeError: the model has other parameters; the message lists them.
        """
        chosen = self.state_dict()
        if averaged:
            chosen |= self.averages
        model.load_state_dict(chosen)
        return model

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers by name, as `nn.Module.load_state_dict` takes them."""
        return {**self.parameters, **self.buffers}

    def trend(self, metric: str, mode: Mode = "min") -> Trend:
        """Return the course of a metric over the epochs of this process."""
        values = [each.scalars[metric] for each in self.history if metric in each.scalars]
        return Trend(tuple(values), mode)


@torch.no_grad()
def weights_of(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return copies of the parameters and of the stored buffers, on the host."""
    # `state_dict` knows which buffers are stored, and the names of tied parameters.
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    held = {
        name: each.detach().to("cpu", copy=True)
        for name, each in model.state_dict().items()
        if isinstance(each, Tensor)
    }
    return (
        {name: each for name, each in held.items() if name in parameters},
        {name: each for name, each in held.items() if name not in parameters},
    )
