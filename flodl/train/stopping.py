"""Early stopping: a metric that does not get better, or any condition on trends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, final

from flodl.observe.metrics import MetricLog
from flodl.observe.stored_values import require_count, require_number
from flodl.observe.trend import Mode, Trend, require_mode
from flodl.train.schedules import observed


class StopRule(Protocol):
    """A condition that is checked after every epoch."""

    def after_epoch(self, log: MetricLog, metrics: Mapping[str, float], /) -> str:
        """Return why to stop, or nothing."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return its state."""
        ...

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Continue."""
        ...


@final
class NoBetter:
    """Stops when a metric has not got better for a number of epochs."""

    def __init__(self, metric: str, patience: int, minimum: float, mode: Mode) -> None:
        self._metric = metric
        self._patience = patience
        self._minimum = minimum
        require_mode(mode)
        self._mode = mode
        self._best: float | None = None
        self._waited = 0

    def after_epoch(self, log: MetricLog, metrics: Mapping[str, float]) -> str:
        """Compare with the best so far."""
        del log
        value = observed(metrics, self._metric)
        gain = 0.0 if self._best is None else self._best - value
        gain = -gain if self._mode == "max" else gain
        if self._best is None or gain > self._minimum:
            self._best, self._waited = value, 0
            return ""
        self._waited += 1
        if self._waited < self._patience:
            return ""
        return f"`{self._metric}` has not got better for {self._waited} epochs (best {self._best:.6g})"

    def state_dict(self) -> dict[str, Any]:
        """Return the best value and for how long it has been."""
        return {"best": self._best, "waited": self._waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue."""
        require_count("waited", state["waited"])
        if state["best"] is not None:
            require_number("best", state["best"])
        self._best, self._waited = state["best"], state["waited"]


@final
class TrendRule:
    """Stops when a question about the course of a metric is answered with yes."""

    def __init__(self, metric: str, question: Callable[[Trend], bool], mode: Mode) -> None:
        self._metric = metric
        self._question = question
        require_mode(mode)
        self._mode = mode

    def after_epoch(self, log: MetricLog, metrics: Mapping[str, float]) -> str:
        """Ask."""
        observed(metrics, self._metric)
        if self._question(log.trend(self._metric, self._mode)):
            return f"the trend of `{self._metric}` says so ({log.trend(self._metric).latest:.6g})"
        return ""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: trends are kept by the training."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take nothing."""
