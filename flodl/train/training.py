"""The running training, as callbacks see it: where it is, its rates, and how to end it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, final

from flodl.nn.torch_schedules import apply_rate, scale_rates
from flodl.observe.metrics import MetricLog
from flodl.observe.stored_values import require_count, require_number
from flodl.train.schedules import Constant, Plateau, Pure, Schedule, schedule_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import nn, optim

    from flodl.observe.trend import Mode, Trend
    from flodl.train.stopping import StopRule


@final
class Training:
    """The position of a training, which callbacks get.

    Attributes:
        model: the model.
        optimizer: its optimizer.
        device: where it trains.
        epoch: the running epoch, from 0.
        position: batches of this epoch that were trained on.
        step: batches in total.
        update: updates of the weights in total.
        phase: `train`, or `evaluate` at the end of an epoch.
        log: the epoch values of every metric.
        stopping: why the training ends before its last epoch; empty if it does not.
        ended: whether that is final, so that a resumed training ends as well.
        lr_scale: the factor on what the schedule says.
        rank_scale: the factor on all rates for the number of ranks (`lr_scale_ratio`).
        rank: the rank of this process, 0 if it trains alone.
        world_size: the number of processes that began to train together.
    """

    def __init__(self, model: nn.Module, optimizer: optim.Optimizer, device: torch.device) -> None:
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.epoch = 0
        self.position = 0
        self.step = 0
        self.update = 0
        self.phase = "train"
        self.log = MetricLog()
        self.stopping = ""
        self.ended = False
        self.lr_scale = 1.0
        self.rank_scale = 1.0
        self.rank = 0
        self.world_size = 1
        self.schedule: Schedule = Constant()
        self.rules: tuple[StopRule, ...] = ()

    @property
    def current_epoch(self) -> int:
        """The running epoch, from 0."""
        return self.epoch

    @property
    def local_step(self) -> int:
        """Batches that were trained on, those before a resume and those of other processes included."""
        return self.step

    @property
    def current_lr(self) -> float:
        """The learning rate of the first group."""
        return float(self.optimizer.param_groups[0]["lr"])

    def set_lr(self, lr: float) -> None:
        """Set the rate of the first group, the others in proportion; a schedule may set it again."""
        apply_rate(self.optimizer, lr)

    def scale_lr(self, factor: float) -> None:
        """Multiply all rates, those that a schedule will set included."""
        self.lr_scale *= factor
        self.set_lr(self.current_lr * factor)

    def set_lr_scale(self, factor: float) -> None:
        """Set the factor on what the schedule says."""
        self.set_lr(self.current_lr * factor / self.lr_scale)
        self.lr_scale = factor

    def set_scheduler(self, scheduler: Any) -> None:
        """Let another schedule set the rates from here on."""
        self.schedule = schedule_of(scheduler, self.optimizer, every=None, metric="loss")
        # One of torch has read the rates of the optimizer, which are scaled.
        if isinstance(self.schedule, Pure | Plateau):
            self.schedule.scale_for_ranks(self.rank_scale, self.rank_scale)
        if isinstance(self.schedule, Plateau):
            scale_rates(self.optimizer, self.rank_scale)

    def scale_for_ranks(self, factor: float) -> None:
        """Let all rates be `factor` times those of one device, those that the schedule will set included."""
        if factor == self.rank_scale:
            return
        ratio = factor / self.rank_scale
        scale_rates(self.optimizer, ratio)
        self.schedule.scale_for_ranks(factor, ratio)
        self.rank_scale = factor

    def trend(self, metric: str, mode: Mode | None = None) -> Trend:
        """Return the course of a metric over the epochs.

        Raises:
            UnknownNameError: there is no such metric.
        """
        return self.log.trend(metric, mode)

    def stop(self, reason: str = "a callback said so") -> None:
        """End the training after this step, or after this epoch when called at its end."""
        self.stopping = reason

    def ask_rules(self, metrics: Mapping[str, float]) -> None:
        """Let every rule say whether the training ends; one that says so is obeyed for good."""
        for rule in self.rules:
            why = rule.after_epoch(self.log, metrics)
            if why:
                self.stop(f"early stop: {why}")
                self.ended = True

    def state_dict(self) -> dict[str, Any]:
        """Return the position, the history of metrics, and what schedule and rules remember."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "step": self.step,
            "update": self.update,
            "phase": self.phase,
            "lr_scale": self.lr_scale,
            "rank_scale": self.rank_scale,
            "log": self.log.state_dict(),
            "ended": self.stopping if self.ended else "",
            "schedule": [type(self.schedule).__name__, self.schedule.state_dict()],
            "rules": [[type(rule).__name__, rule.state_dict()] for rule in self.rules],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a position, with the rates of the ranks that were there (`rank_scale`).

        Raises:
            ValueError: a field has another type.
            KeyError: a field is missing.
        """
        for name in ("epoch", "position", "step", "update"):
            require_count(name, state[name])
        require_number("lr_scale", state["lr_scale"])
        rank_scale = state.get("rank_scale", 1.0)  # older checkpoints have none
        require_number("rank_scale", rank_scale)
        if not 0.0 < rank_scale < math.inf:
            raise ValueError(f"rank_scale is {rank_scale}, no factor on a rate")
        if state["phase"] not in ("train", "evaluate") or not isinstance(state["ended"], str):
            raise ValueError(f"no training is in the phase {state['phase']!r}")
        self.epoch, self.position = state["epoch"], state["position"]
        self.step, self.update = state["step"], state["update"]
        self.phase, self.lr_scale = state["phase"], state["lr_scale"]
        self.log.load_state_dict(state["log"])
        # Another schedule or another rule than before starts again; without rules nothing has ended.
        self.stopping = state["ended"] if self.rules else ""
        self.ended = bool(self.stopping)
        kind, held = state["schedule"]
        ratio = rank_scale / self.rank_scale
        if kind == type(self.schedule).__name__:
            self.schedule.load_state_dict(held)
            ratio = 1.0  # rates in it are scaled already
        self.schedule.scale_for_ranks(rank_scale, ratio)
        self.rank_scale = rank_scale
        for rule, (kind, held) in zip(self.rules, state["rules"], strict=False):
            if kind == type(rule).__name__:
                rule.load_state_dict(held)
