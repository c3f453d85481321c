"""Schedules on torch optimizers: rates are set in proportion, group by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.optim import Optimizer


# Rates in a group of an optimizer; the last two are those of `OneCycleLR`.
_RATES: Final = ("lr", "initial_lr", "max_lr", "min_lr")


def scale_rates(optimizer: Optimizer, factor: float) -> None:
    """Multiply the rates of all groups, those from which schedules compute included."""
    for group in optimizer.param_groups:
        for name in _RATES:
            held = group.get(name)
            if isinstance(held, Tensor):
                held.mul_(factor)
            elif held is not None:
                group[name] = held * factor


def apply_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the rate of the first group, and of the others in proportion to their initial rates."""
    for group in optimizer.param_groups:
        if "initial_lr" not in group:
            group["initial_lr"] = float(group["lr"])
    reference = optimizer.param_groups[0]["initial_lr"]
    for group in optimizer.param_groups:
        initial = group["initial_lr"]
        wanted = rate if initial == reference else rate * initial / reference
        held = group["lr"]
        if isinstance(held, Tensor):
            # A captured step reads the rate from this very tensor.
            held.fill_(wanted)
        else:
            group["lr"] = wanted


@final
class ScheduledLR(LRScheduler):
    """A pure schedule as torch's `LRScheduler`: `step()` moves on by one."""

    def __init__(self, optimizer: Optimizer, rate_of: Callable[[int], float]) -> None:
        self._rate_of = rate_of
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:  # type: ignore[override]  # torch says float | Tensor
        """Return the rate of every group for the current step."""
        rate = self._rate_of(self.last_epoch)
        reference = float(self.base_lrs[0])
        return [
            rate if base == reference else rate * float(base) / reference for base in self.base_lrs
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the position; the schedule itself is code, not state."""
        return {key: value for key, value in super().state_dict().items() if key != "_rate_of"}


@final
class PlateauLR:
    """A plateau schedule bound to an optimizer: `step(metric)` observes and sets the rates."""

    def __init__(
        self,
        optimizer: Optimizer,
        observe: Callable[[float], float],
        save: Callable[[], dict[str, Any]],
        load: Callable[[dict[str, Any]], None],
    ) -> None:
        self.optimizer = optimizer
        self._observe = observe
        self.state_dict = save
        self.load_state_dict = load

    def step(self, metric: float) -> float:
        """Observe a value and return the rate that was set."""
        rate = self._observe(metric)
        apply_rate(self.optimizer, rate)
        return rate
