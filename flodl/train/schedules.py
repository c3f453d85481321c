"""Learning rates during a training: flodl's pure schedules, torch's stateful ones, and plateaus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, final

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from flodl.checkpoint.restore import check_schedule_state
from flodl.errors import TrainingError
from flodl.nn.schedulers import AbstractScheduler, PlateauScheduler
from flodl.nn.torch_schedules import apply_rate

Every = Literal["step", "epoch"]
# Lists of rates in schedules of torch; those of `CyclicLR` and `OneCycleLR` are also in the groups.
_RATES: Final = {"base_lrs", "max_lrs", "_last_lr"}
Wanted: TypeAlias = (
    "AbstractScheduler | PlateauScheduler | LRScheduler | Callable[[Optimizer], Any]"
)


class Schedule(Protocol):
    """The interface that sets learning rates.

    Attributes:
        per_update: whether `before_update` and `after_update` do anything.
    """

    per_update: bool

    def before_update(self, update: int, scale: float, /) -> None:
        """Set the rates for an update."""
        ...

    def after_update(self) -> None:
        """Move on after an update."""
        ...

    def after_epoch(self, epoch: int, scale: float, metrics: Mapping[str, float], /) -> None:
        """Move on after an epoch."""
        ...

    def scale_for_ranks(self, factor: float, ratio: float, /) -> None:
        """Let the rates that follow be `factor` times those of one device, `ratio` times those so far."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the position."""
        ...

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Continue from a position."""
        ...


def schedule_of(
    wanted: Wanted | None, optimizer: Optimizer, *, every: Every | None, metric: str
) -> Schedule:
    """Return the driver of the rates of an optimizer.

    Args:
        wanted: a schedule of flodl or torch, or a function that makes one from the optimizer.
        optimizer: the optimizer.
        every: when it moves on; by default flodl's with every update, torch's with every epoch.
        metric: the metric that a plateau schedule observes.

    Raises:
        TrainingError: it is no schedule.
    """
    if wanted is None:
        return Constant()
    if isinstance(wanted, AbstractScheduler):
        return Pure(wanted, optimizer, every or "step")
    if isinstance(wanted, PlateauScheduler):
        return Plateau(wanted, optimizer, metric)
    if isinstance(wanted, LRScheduler):
        return Torch(wanted, every or "epoch", metric)
    if callable(wanted):
        made = wanted(optimizer)
        if isinstance(made, AbstractScheduler | PlateauScheduler | LRScheduler):
            return schedule_of(made, optimizer, every=every, metric=metric)
        raise TrainingError(
            f"the scheduler function returned {type(made).__name__}, which is no schedule"
        )
    raise TrainingError(
        f"{type(wanted).__name__} is no schedule: flodl's, torch's, or a function of the optimizer"
    )


@final
class Constant:
    """No schedule: rates stay as they are."""

    per_update = False

    def before_update(self, update: int, scale: float) -> None:
        """Do nothing."""

    def after_update(self) -> None:
        """Do nothing."""

    def after_epoch(self, epoch: int, scale: float, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def scale_for_ranks(self, factor: float, ratio: float) -> None:
        """Do nothing: the rates are those of the optimizer."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take nothing."""


@final
class Pure:
    """A rate that is a function of the update or the epoch: it has no state."""

    def __init__(self, schedule: AbstractScheduler, optimizer: Optimizer, every: Every) -> None:
        self._rate = schedule.lr
        self._optimizer = optimizer
        self._factor = 1.0  # for the number of ranks
        self.per_update = every == "step"
        if not self.per_update:
            apply_rate(optimizer, self._rate(0))

    def before_update(self, update: int, scale: float) -> None:
        """Set the rates of an update."""
        apply_rate(self._optimizer, self._rate(update) * self._factor * scale)

    def after_update(self) -> None:
        """Do nothing."""

    def after_epoch(self, epoch: int, scale: float, metrics: Mapping[str, float]) -> None:
        """Set the rates of the next epoch."""
        del metrics
        if not self.per_update:
            apply_rate(self._optimizer, self._rate(epoch + 1) * self._factor * scale)

    def scale_for_ranks(self, factor: float, ratio: float) -> None:
        """Set the factor on the rates."""
        del ratio
        self._factor = factor

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: the position is that of the training."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take nothing."""


@final
class Plateau:
    """flodl's plateau schedule, which observes a metric after every epoch."""

    per_update = False

    def __init__(self, schedule: PlateauScheduler, optimizer: Optimizer, metric: str) -> None:
        self._schedule = schedule
        self._optimizer = optimizer
        self._metric = metric
        self._factor = 1.0  # for the number of ranks
        apply_rate(optimizer, schedule.lr())

    def before_update(self, update: int, scale: float) -> None:
        """Do nothing."""

    def after_update(self) -> None:
        """Do nothing."""

    def after_epoch(self, epoch: int, scale: float, metrics: Mapping[str, float]) -> None:
        """Observe the metric."""
        del epoch
        rate = self._schedule.observe(observed(metrics, self._metric))
        apply_rate(self._optimizer, rate * self._factor * scale)

    def scale_for_ranks(self, factor: float, ratio: float) -> None:
        """Set the factor on the rates."""
        del ratio
        self._factor = factor

    def state_dict(self) -> dict[str, Any]:
        """Return the observed values."""
        return self._schedule.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue."""
        self._schedule.load_state_dict(state)


@final
class Torch:
    """A schedule of torch, which owns its optimizer and counts by itself."""

    def __init__(self, schedule: LRScheduler, every: Every, metric: str) -> None:
        self._schedule: Any = schedule
        self._watches = isinstance(schedule, ReduceLROnPlateau)
        self._metric = metric
        self.per_update = every == "step" and not self._watches

    def before_update(self, update: int, scale: float) -> None:
        """Do nothing."""

    def after_update(self) -> None:
        """Move on."""
        self._advance()

    def after_epoch(self, epoch: int, scale: float, metrics: Mapping[str, float]) -> None:
        """Move on."""
        del epoch, scale
        if self._watches:
            self._advance(observed(metrics, self._metric))
        elif not self.per_update:
            self._advance()

    def scale_for_ranks(self, factor: float, ratio: float) -> None:
        """Multiply the rates from which it computes; a lowest rate (`eta_min`, `min_lr`) stays."""
        del factor
        if ratio == 1.0:
            return
        for each in _with_parts(self._schedule):
            held = vars(each)
            for name in _RATES & held.keys():
                held[name] = [rate * ratio for rate in held[name]]

    def _advance(self, *metric: float) -> None:
        # Torch warns when it has not seen optimizer.step(); a captured step does not call it.
        vars(self._schedule.optimizer)["_opt_called"] = True
        self._schedule.step(*metric)

    def state_dict(self) -> dict[str, Any]:
        """Return its counts, without what is code."""
        return {
            name: value
            for name, value in self._schedule.state_dict().items()
            if not callable(value)
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue."""
        check_schedule_state(state, self._schedule)
        self._schedule.load_state_dict(state)


def _with_parts(schedule: Any) -> Iterator[Any]:
    """Yield a schedule of torch, and those of which it is made (`SequentialLR`, `ChainedScheduler`)."""
    yield schedule
    for each in vars(schedule).get("_schedulers", ()):
        yield from _with_parts(each)


def observed(metrics: Mapping[str, float], name: str) -> float:
    """Return the metric that something waits for.

    Raises:
        TrainingError: there is none of that name.
    """
    if name not in metrics:
        known = ", ".join(f"`{each}`" for each in sorted(metrics)) or "none"
        raise TrainingError(f"there is no metric `{name}` after the epoch (there are: {known})")
    return metrics[name]
