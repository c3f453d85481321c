"""The course of one metric over epochs, and of several: slope, stalled, improving, converged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, final, get_args

Mode = Literal["min", "max"]


@final
class Figure(float):
    """A number that may also be called, as code ported from Rust does: `trend.mean` or `trend.mean()`."""

    __slots__ = ()

    def __call__(self) -> float:
        """Return the number."""
        return float(self)


def require_mode(mode: str) -> None:
    """Require `min` or `max`.

    Raises:
        ValueError: it is something else.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode is one of {', '.join(get_args(Mode))}, got {mode!r}")


@final
@dataclass(frozen=True, slots=True)
class Trend:
    """The epoch values of one metric.

    Every question takes a window: the last `window` values, 0 for all of them.

    Attributes:
        values: the values, oldest first.
        mode: whether lower (`min`) or higher (`max`) values are better.

    Example:
        >>> from flodl.observe.trend import Trend
        >>> loss = Trend((10.0, 8.0, 6.0, 4.0, 2.0))
        >>> loss.slope(), loss.improving(3), loss.stalled(5, 0.01)
        (-2.0, True, False)
        >>> loss.mean == loss.mean() == 6.0
        True
    """

    values: tuple[float, ...] = ()
    mode: Mode = "min"

    def __post_init__(self) -> None:
        """Require a mode that says what is better.

        Raises:
            ValueError: it is neither `min` nor `max`.
        """
        require_mode(self.mode)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    @property
    def is_empty(self) -> bool:
        """Whether there is no value yet."""
        return not self.values

    @property
    def latest(self) -> Figure:
        """The last value, 0 if there is none."""
        return Figure(self.values[-1] if self.values else 0.0)

    @property
    def mean(self) -> Figure:
        """The mean of all values, 0 if there is none."""
        return Figure(sum(self.values) / len(self.values) if self.values else 0.0)

    @property
    def min(self) -> Figure:
        """The smallest value, infinity if there is none."""
        return Figure(min(self.values, default=float("inf")))

    @property
    def max(self) -> Figure:
        """The largest value, minus infinity if there is none."""
        return Figure(max(self.values, default=float("-inf")))

    @property
    def best(self) -> Figure:
        """The smallest or the largest value, as the mode says."""
        return self.min if self.mode == "min" else self.max

    def last(self, count: int) -> tuple[float, ...]:
        """Return the last values, fewer if there are not so many."""
        return self.values[-count:] if count > 0 else ()

    def slope(self, window: int = 0) -> float:
        """Return the least-squares slope per epoch; 0 for fewer than two values."""
        values = self._window(window)
        count = len(values)
        xs, total = count * (count - 1) / 2, sum(values)
        squares = sum(x * x for x in range(count))
        denominator = count * squares - xs * xs
        if count < 2 or abs(denominator) < 1e-15:
            return 0.0
        return (count * sum(x * y for x, y in enumerate(values)) - xs * total) / denominator

    def stalled(self, window: int = 0, tolerance: float = 1e-4, *, relative: bool = False) -> bool:
        """Return True if the metric has stopped moving: `|slope| < tolerance`.

        `False` until the window is full, so that a fresh run never counts as stalled.

        Args:
            window: how many values to look at.
            tolerance: the slope below which nothing moves.
            relative: take the tolerance as a share of the mean magnitude of the window.
        """
        if len(self.values) < max(window, 2):
            return False
        scale = self._scale(window) if relative else 1.0
        return abs(self.slope(window)) < tolerance * scale

    def improving(self, window: int = 0) -> bool:
        """Return True if the metric moves in the better direction."""
        slope = self.slope(window)
        return slope < 0 if self.mode == "min" else slope > 0

    def converged(
        self, window: int = 0, tolerance: float = 1e-5, *, relative: bool = False
    ) -> bool:
        """Return True if at least two values lie close together: population variance below the tolerance.

        Args:
            window: how many values to look at.
            tolerance: the variance below which values count as equal.
            relative: take the tolerance as a share of the squared mean magnitude of the window.
        """
        values = self._window(window)
        if len(values) < 2:
            return False
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        scale = self._scale(window) ** 2 if relative else 1.0
        return variance < tolerance * scale

    def _window(self, window: int) -> tuple[float, ...]:
        if window < 0:
            message = f"a window is a number of values, 0 for all; got {window}"
            raise ValueError(message)
        return self.values[-window:] if window else self.values

    def _scale(self, window: int) -> float:
        values = self._window(window)
        return sum(map(abs, values)) / len(values)


@final
@dataclass(frozen=True, slots=True)
class TrendGroup:
    """Several trends that are checked together; `all_...` returns `False` for none.

    Example:
        >>> from flodl.observe.trend import Trend, TrendGroup
        >>> group = TrendGroup({"a": Trend((3.0, 1.0)), "b": Trend((1.0, 2.0))})
        >>> group.all_improving(), group.any_improving(), group.slopes()
        (False, True, {'a': -2.0, 'b': 1.0})
    """

    trends: Mapping[str, Trend] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.trends)

    def all_improving(self, window: int = 0) -> bool:
        """Return True if every metric improves."""
        return self._all(lambda trend: trend.improving(window))

    def any_improving(self, window: int = 0) -> bool:
        """Return True if some metric improves."""
        return self._any(lambda trend: trend.improving(window))

    def all_stalled(self, window: int = 0, tolerance: float = 1e-4) -> bool:
        """Return True if every metric has stalled."""
        return self._all(lambda trend: trend.stalled(window, tolerance))

    def any_stalled(self, window: int = 0, tolerance: float = 1e-4) -> bool:
        """Return True if some metric has stalled."""
        return self._any(lambda trend: trend.stalled(window, tolerance))

    def all_converged(self, window: int = 0, tolerance: float = 1e-5) -> bool:
        """Return True if every metric has converged."""
        return self._all(lambda trend: trend.converged(window, tolerance))

    def any_converged(self, window: int = 0, tolerance: float = 1e-5) -> bool:
        """Return True if some metric has converged."""
        return self._any(lambda trend: trend.converged(window, tolerance))

    def slopes(self, window: int = 0) -> dict[str, float]:
        """Return the slope of every metric."""
        return {name: trend.slope(window) for name, trend in self.trends.items()}

    def mean_slope(self, window: int = 0) -> float:
        """Return the mean of the slopes, 0 for none."""
        slopes = self.slopes(window).values()
        return sum(slopes) / len(slopes) if slopes else 0.0

    def _all(self, question: Callable[[Trend], bool]) -> bool:
        return bool(self.trends) and all(map(question, self.trends.values()))

    def _any(self, question: Callable[[Trend], bool]) -> bool:
        return any(map(question, self.trends.values()))
