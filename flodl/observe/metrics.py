"""A log of metrics: values of the running epoch are collected, a flush turns them into one epoch mean."""

from __future__ import annotations

import difflib
import time
from typing import TYPE_CHECKING, Any, final

from flodl.errors import UnknownNameError
from flodl.observe.stored_values import require_number, require_numbers
from flodl.observe.trend import Trend, TrendGroup, require_mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flodl.observe.trend import Mode


@final
class MetricLog:
    """Collects numbers by name, batch by batch, and keeps their epoch means.

    Example:
        >>> from flodl.observe.metrics import MetricLog
        >>> log = MetricLog()
        >>> for epoch in range(3):
        ...     log.record("loss", [1.0 / (epoch + 1), 0.5 / (epoch + 1)])
        ...     _ = log.flush()
        >>> log.latest()
        {'loss': 0.25}
        >>> log.trend("loss").improving(3)
        True
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Make an empty log.

        Args:
            clock: tells the time in seconds, from which durations are computed.
        """
        self._clock = clock
        self._buffer: dict[str, list[float]] = {}
        self._history: dict[str, list[float]] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._declared: set[str] = set()
        self._modes: dict[str, Mode] = {}
        self._began: float | None = None
        self._flush_times: list[float] = []

    # ---- names --------------------------------------------------------------------------------

    def declare(
        self, names: Iterable[str], groups: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Make names known before the first value, so that asking for them is no mistake.

        Args:
            names: names of metrics.
            groups: names that stand for several metrics.
        """
        self._declared |= set(names)
        for name, members in (groups or {}).items():
            self._groups[name] = tuple(members)
            self._declared |= set(members)

    def set_mode(self, name: str, mode: Mode) -> None:
        """Return True if lower (`min`, the default) or higher (`max`) values of a metric are better.

        Raises:
            ValueError: the mode is neither.
        """
        require_mode(mode)
        self._modes[name] = mode
        self._declared.add(name)

    @property
    def declared(self) -> frozenset[str]:
        """The metrics that are known, with a value or without."""
        return frozenset(self._declared)

    @property
    def names(self) -> tuple[str, ...]:
        """The metrics that have a value, in the order they were first seen."""
        return tuple(dict.fromkeys((*self._history, *self._buffer)))

    def group(self, name: str) -> tuple[str, ...]:
        """Return the members of a group.

        Raises:
            UnknownNameError: there is no such group.
        """
        if name not in self._groups:
            raise unknown("group", name, self._groups)
        return self._groups[name]

    def expand(self, names: Iterable[str]) -> tuple[str, ...]:
        """Replace groups by their members; no names at all means every metric with a value.

        Raises:
            UnknownNameError: a name is neither a metric nor a group.
        """
        found: dict[str, None] = {}
        for name in names:
            if name in self._groups:
                found |= dict.fromkeys(self._groups[name])
            else:
                self._require(name)
                found[name] = None
        return tuple(found) or self.names

    # ---- values -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the clock of durations, if it does not run yet."""
        if self._began is None:
            self._began = self._clock()

    def record(self, name: str, values: float | Iterable[float]) -> None:
        """Add one value or several to the running epoch.

        Args:
            name: the metric.
            values: a number or numbers.
        """
        self.start()
        if isinstance(values, (int, float)):
            values = (values,)
        self._buffer.setdefault(name, []).extend(float(value) for value in values)

    def collected(self, name: str) -> tuple[float, ...]:
        """Return the values of the running epoch.

        Raises:
            UnknownNameError: nothing of that name was ever recorded or declared.
        """
        self._require(name)
        return tuple(self._buffer.get(name, ()))

    def exchange(self, collected: dict[str, list[float]]) -> dict[str, list[float]]:
        """Put other values in the place of those of the running epoch, and return these."""
        before, self._buffer = self._buffer, collected
        return before

    def flush(self, names: Iterable[str] = ()) -> tuple[str, ...]:
        """End the epoch: append the mean of each metric to its history and empty the buffers.

        Args:
            names: metrics or groups; none for all.  Only a flush of all counts as an epoch.

        Returns:
            The metrics that had values.

        Raises:
            UnknownNameError: a name is neither a metric nor a group.
        """
        chosen = tuple(names)
        flushed = []
        for name in self.expand(chosen):
            values = self._buffer.pop(name, [])
            if values:
                self._history.setdefault(name, []).append(sum(values) / len(values))
                flushed.append(name)
        if flushed and not chosen:
            began = self._began if self._began is not None else self._clock()
            self._flush_times.append(self._clock() - began)
        return tuple(flushed)

    def latest(self) -> dict[str, float]:
        """Return the last epoch value of every metric, in the order they were first seen."""
        return {name: values[-1] for name, values in self._history.items() if values}

    def history(self, name: str) -> tuple[float, ...]:
        """Return all epoch values of a metric.

        Raises:
            UnknownNameError: nothing of that name was ever recorded or declared.
        """
        self._require(name)
        return tuple(self._history.get(name, ()))

    # ---- questions ----------------------------------------------------------------------------

    def trend(self, name: str, mode: Mode | None = None) -> Trend:
        """Return the course of a metric over epochs.

        Args:
            name: the metric.
            mode: whether lower or higher is better; as set by `set_mode` if not given.

        Raises:
            UnknownNameError: nothing of that name was ever recorded or declared.
        """
        return Trend(self.history(name), mode or self._modes.get(name, "min"))

    def trends(self, names: Iterable[str] = ()) -> TrendGroup:
        """Return the courses of metrics and groups; of every metric if none is named.

        Raises:
            UnknownNameError: a name is neither a metric nor a group.
        """
        return TrendGroup({name: self.trend(name) for name in self.expand(names)})

    def reset(self, names: Iterable[str] = ()) -> None:
        """Forget the epoch values of metrics and groups; of all, with the epochs, if none is named.

        Raises:
            UnknownNameError: a name is neither a metric nor a group.
        """
        chosen = tuple(names)
        for name in self.expand(chosen):
            self._declared.add(name)
            self._history.pop(name, None)
        if not chosen:
            self._flush_times.clear()
            self._began = None

    @property
    def flush_count(self) -> int:
        """The number of epochs that have ended."""
        return len(self._flush_times)

    @property
    def flush_times(self) -> tuple[float, ...]:
        """When each epoch ended, in seconds since the first value."""
        return tuple(self._flush_times)

    def eta(self, total_epochs: int) -> float:
        """Return the seconds that the remaining epochs will take; 0 before the first one has ended."""
        if not self._flush_times:
            return 0.0
        count = len(self._flush_times)
        return self._flush_times[-1] / count * max(total_epochs - count, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return all values as plain ones, for a checkpoint."""
        began = self._began
        return {
            "collected": {name: list(values) for name, values in self._buffer.items()},
            "history": {name: list(values) for name, values in self._history.items()},
            "ended": list(self._flush_times),
            "elapsed": None if began is None else self._clock() - began,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved values; modes that are declared here stay.

        Raises:
            ValueError: a value is no number.
            KeyError: a field is missing.
        """
        for part in ("collected", "history"):
            for name, values in dict(state[part]).items():
                require_numbers(f"{part} {name}", values)
        require_numbers("ended", state["ended"])
        if state["elapsed"] is not None:
            require_number("elapsed", state["elapsed"])
        self._buffer = {name: list(values) for name, values in state["collected"].items()}
        self._history = {name: list(values) for name, values in state["history"].items()}
        self._flush_times = list(state["ended"])
        elapsed = state["elapsed"]
        self._began = None if elapsed is None else self._clock() - elapsed

    def _require(self, name: str) -> None:
        if name not in self._history and name not in self._buffer and name not in self._declared:
            known = {*self._history, *self._buffer, *self._declared, *self._groups}
            raise unknown("metric", name, known)

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        # A clock of another process counts from another start.
        ended = self._flush_times[-1] if self._flush_times else 0.0
        state["_began"] = None if self._began is None else ended
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if self._began is not None:
            self._began = self._clock() - self._began


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for a name that does not exist, with those that do.

    Args:
        what: the kind of the missing thing.
        name: the unknown name.
        known: the names that exist.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    listed = ", ".join(f"`{each}`" for each in names[:12]) or "none"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return UnknownNameError(f"there is no {what} `{name}`{hint} (known: {listed}{more})")
