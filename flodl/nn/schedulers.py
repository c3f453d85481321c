"""Learning-rate schedules as pure functions of the step: none of them owns an optimizer.

Differences to torch's classes of the same purpose: `OneCycleLR` warms up linearly from `max_lr / 25` and
ends there; `WarmupScheduler` starts at `target / warmup_steps`, not at 0; `PlateauScheduler` reduces after
`patience` bad observations, torch after one more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from flodl.nn.torch_schedules import PlateauLR, ScheduledLR, apply_rate

if TYPE_CHECKING:
    from torch.optim import Optimizer

OneCycleStartDivisor = 25.0


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


class AbstractScheduler(ABC):
    """Something that knows the learning rate of every step; steps count from 0."""

    __slots__ = ()

    @abstractmethod
    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""

    def __call__(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.lr(step)

    def apply(self, optimizer: Optimizer, step: int) -> float:
        """Set the rates of an optimizer for a step and return the one of its first group.

        The other groups keep their ratio to the first one.
        """
        rate = self.lr(step)
        apply_rate(optimizer, rate)
        return rate

    def as_torch(self, optimizer: Optimizer) -> ScheduledLR:
        """Return this schedule as a `torch.optim.lr_scheduler`, for code that calls `step()`."""
        return ScheduledLR(optimizer, self.lr)


@final
@dataclass(frozen=True, slots=True)
class StepDecay(AbstractScheduler):
    """`base * gamma ** (step // step_size)`.

    Example:
        >>> StepDecay(0.1, 10, 0.5).lr(20)
        0.025
    """

    base: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        _require(self.step_size > 0, f"StepDecay needs step_size >= 1, got {self.step_size}")

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.base * self.gamma ** (step // self.step_size)


@final
@dataclass(frozen=True, slots=True)
class CosineScheduler(AbstractScheduler):
    """Half a cosine from `base` to `minimum` over `total_steps`, and `minimum` afterwards."""

    base: float
    minimum: float
    total_steps: int

    def __post_init__(self) -> None:
        _require(
            self.total_steps > 0, f"CosineScheduler needs total_steps >= 1, got {self.total_steps}"
        )

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        progress = min(step, self.total_steps) / self.total_steps
        return self.minimum + 0.5 * (self.base - self.minimum) * (1 + math.cos(math.pi * progress))


@final
@dataclass(frozen=True, slots=True)
class ExponentialLR(AbstractScheduler):
    """`base * gamma ** step`."""

    base: float
    gamma: float

    def __post_init__(self) -> None:
        _require(self.gamma > 0, f"ExponentialLR needs gamma > 0, got {self.gamma}")

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        return float(self.base * self.gamma**step)


@final
@dataclass(frozen=True, slots=True, init=False)
class MultiStepLR(AbstractScheduler):
    """`base`, times `gamma` for every milestone that has been reached."""

    base: float
    milestones: tuple[int, ...]
    gamma: float

    def __init__(
        self, base: float, milestones: tuple[int, ...] | list[int], gamma: float = 0.1
    ) -> None:
        _require(
            all(step >= 0 for step in milestones), f"milestones must be >= 0, got {milestones}"
        )
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "milestones", tuple(sorted(milestones)))
        object.__setattr__(self, "gamma", gamma)

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        return float(self.base * self.gamma ** bisect_right(self.milestones, step))


@final
@dataclass(frozen=True, slots=True)
class OneCycleLR(AbstractScheduler):
    """Linear from `max_lr / 25` to `max_lr`, then half a cosine back, over `total_steps`."""

    max_lr: float
    total_steps: int
    warmup_fraction: float = 0.3

    def __post_init__(self) -> None:
        _require(
            self.total_steps > 0, f"OneCycleLR needs total_steps >= 1, got {self.total_steps}"
        )
        _require(
            0 <= self.warmup_fraction <= 1,
            f"OneCycleLR needs 0 <= warmup_fraction <= 1, got {self.warmup_fraction}",
        )

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        step = min(step, self.total_steps)
        low = self.max_lr / OneCycleStartDivisor
        warmup = round(self.total_steps * self.warmup_fraction)
        if step < warmup:
            return low + (step / warmup) * (self.max_lr - low)
        progress = (step - warmup) / max(self.total_steps - warmup, 1)
        return low + 0.5 * (self.max_lr - low) * (1 + math.cos(math.pi * progress))


@final
@dataclass(frozen=True, slots=True)
class CyclicLR(AbstractScheduler):
    """A triangle between `base` and `max_lr`: `step_size` steps up, `step_size_down` (or as many) down."""

    base: float
    max_lr: float
    step_size: int
    step_size_down: int | None = None

    def __post_init__(self) -> None:
        _require(self.step_size > 0, f"CyclicLR needs step_size >= 1, got {self.step_size}")
        down = self.step_size_down
        _require(down is None or down > 0, f"CyclicLR needs step_size_down >= 1, got {down}")

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        up = self.step_size
        down = self.step_size if self.step_size_down is None else self.step_size_down
        position = step % (up + down)
        height = position / up if position < up else 1 - (position - up) / down
        return self.base + (self.max_lr - self.base) * height


@final
@dataclass(frozen=True, slots=True)
class LinearScheduler(AbstractScheduler):
    """A straight line from `base` to `end` over `total_steps`, and `end` afterwards."""

    base: float
    end: float
    total_steps: int

    def __post_init__(self) -> None:
        _require(
            self.total_steps > 0, f"LinearScheduler needs total_steps >= 1, got {self.total_steps}"
        )

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.base + (self.end - self.base) * min(step, self.total_steps) / self.total_steps


@final
@dataclass(frozen=True, slots=True)
class WarmupScheduler(AbstractScheduler):
    """`target * (step + 1) / warmup_steps` at first, then an inner schedule that starts at its step 0.

    Example:
        >>> warm = WarmupScheduler(CosineScheduler(1e-3, 1e-6, 100), 1e-3, 10)
        >>> warm.lr(0), warm.lr(9), warm.lr(10)
        (0.0001, 0.001, 0.001)
    """

    inner: AbstractScheduler
    target: float
    warmup_steps: int

    def __post_init__(self) -> None:
        _require(
            self.warmup_steps >= 0,
            f"WarmupScheduler needs warmup_steps >= 0, got {self.warmup_steps}",
        )

    @classmethod
    def with_ratio(
        cls, inner: AbstractScheduler, target: float, total_steps: int, ratio: float
    ) -> WarmupScheduler:
        """Warm up for a share of all steps instead of a number of them."""
        _require(0 <= ratio <= 1, f"a warm-up ratio is between 0 and 1, got {ratio}")
        return WarmupScheduler(inner, target, round(total_steps * ratio))

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        if step < self.warmup_steps:
            return self.target * (step + 1) / self.warmup_steps
        return self.inner.lr(step - self.warmup_steps)


@final
class PlateauScheduler:
    """Multiplies the rate by `factor` whenever a metric has not improved for `patience` observations.

    Example:
        >>> plateau = PlateauScheduler(0.1, patience=2, factor=0.5)
        >>> [plateau.observe(loss) for loss in (1.0, 1.0, 1.0)]
        [0.1, 0.1, 0.05]
    """

    def __init__(
        self,
        base: float,
        patience: int,
        factor: float = 0.1,
        minimum: float = 0.0,
        *,
        mode: str = "min",
    ) -> None:
        _require(patience > 0, f"PlateauScheduler needs patience >= 1, got {patience}")
        _require(0 < factor < 1, f"PlateauScheduler needs 0 < factor < 1, got {factor}")
        _require(mode in ("min", "max"), f"mode is 'min' or 'max', got {mode!r}")
        self.patience = patience
        self.factor = factor
        self.minimum = minimum
        self.mode = mode
        self._lr = base
        self._best: float | None = None
        self._wait = 0

    def lr(self) -> float:
        """Return the current learning rate."""
        return self._lr

    def observe(self, metric: float) -> float:
        """Take one value of the metric into account and return the learning rate from here on."""
        value = float(metric) if self.mode == "min" else -float(metric)
        if self._best is None or value < self._best:
            self._best = value
            self._wait = 0
            return self._lr
        self._wait += 1
        if self._wait >= self.patience:
            self._lr = max(self._lr * self.factor, self.minimum)
            self._wait = 0
        return self._lr

    def as_torch(self, optimizer: Optimizer) -> PlateauLR:
        """Return an object whose `step(metric)` observes and sets the rates of an optimizer."""
        return PlateauLR(optimizer, self.observe, self.state_dict, self.load_state_dict)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that changes during training."""
        return {"lr": self._lr, "best": self._best, "wait": self._wait}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self._lr, self._best, self._wait = state["lr"], state["best"], state["wait"]
