"""Progress on standard error, and notices: a moving line on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO, final

from flodl import log
from flodl.observe.duration import format_duration
from flodl.train.protocols import MonitorLike
from flodl.train.state import EpochMetrics

_NOW_AND_THEN = 30.0  # seconds


class Progress(Protocol):
    """Shows a training."""

    def begin(self, epoch: int, epochs: int, total: int | None, /) -> None:
        """Show the beginning of an epoch."""
        ...

    def move(self, position: int, loss: float, /) -> None:
        """Show how far the epoch is."""
        ...

    def end(self, metrics: EpochMetrics, epochs: int, left: float, /) -> None:
        """Show an epoch that is finished, and the seconds that are left."""
        ...

    def note(self, line: str, /) -> None:
        """Show something that was decided or that happened."""
        ...

    def close(self) -> None:
        """Give the terminal back."""
        ...


def progress_for(wanted: bool, stream: TextIO | None = None) -> Progress:
    """Return the progress display of a stream: none, plain lines, or a moving line."""
    out = stream or sys.stderr
    if not wanted or not log.enabled(log.Verbosity.NORMAL):
        return Silent()
    return Moving(out) if out.isatty() else Plain(out)


@final
class Silent:
    """Shows nothing."""

    def begin(self, epoch: int, epochs: int, total: int | None) -> None:
        """Show nothing."""

    def move(self, position: int, loss: float) -> None:
        """Show nothing."""

    def end(self, metrics: EpochMetrics, epochs: int, left: float) -> None:
        """Show nothing."""

    def note(self, line: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


@final
class Plain:
    """One line per epoch, for files and pipes, and one now and then in an epoch that lasts."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._label = ""
        self._total: int | None = None
        self._next = clock() + _NOW_AND_THEN

    def begin(self, epoch: int, epochs: int, total: int | None) -> None:
        """Remember what the epoch is called."""
        self._label = f"epoch {epoch + 1:{len(str(epochs))}d}/{epochs}"
        self._total = total
        self._next = self._clock() + _NOW_AND_THEN

    def move(self, position: int, loss: float) -> None:
        """Write a line if there was none for a while."""
        if self._clock() >= self._next:
            self._next = self._clock() + _NOW_AND_THEN
            of = f"/{self._total}" if self._total is not None else ""
            self.note(f"{self._label}  batch {position}{of}  loss {loss:.4g}")

    def end(self, metrics: EpochMetrics, epochs: int, left: float) -> None:
        """Write the line of an epoch."""
        self.note(epoch_line(metrics, epochs, left))

    def note(self, line: str) -> None:
        """Write a line."""
        self._out.write(line + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing is held."""


@final
class Moving:
    """A line that moves, with `rich`; plain lines where `rich` is not installed."""

    def __init__(self, out: TextIO) -> None:
        self._plain = Plain(out)
        self._bar: Any = _rich_bar(out)
        self._task: Any = None

    def begin(self, epoch: int, epochs: int, total: int | None) -> None:
        """Begin a bar."""
        if self._bar is not None:
            if self._task is None:
                self._bar.start()
            else:
                self._bar.remove_task(self._task)
            label = f"epoch {epoch + 1}/{epochs}"
            self._task = self._bar.add_task(label, total=total, loss="")

    def move(self, position: int, loss: float) -> None:
        """Move the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=position, loss=f"loss {loss:.4g}")

    def end(self, metrics: EpochMetrics, epochs: int, left: float) -> None:
        """Leave the line of the epoch above the bar."""
        self.note(epoch_line(metrics, epochs, left))

    def note(self, line: str) -> None:
        """Write a line above the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            self._plain.note(line)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None and self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None
            self._bar.stop()


def _rich_bar(out: TextIO) -> Any:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
        console=Console(file=out),
        transient=True,
    )


def epoch_line(metrics: EpochMetrics, epochs: int, left: float) -> str:
    """Return the line of an epoch.

    Example:
        >>> from flodl.train.progress import epoch_line
        >>> from flodl.train.state import EpochMetrics
        >>> numbers = {"loss": 0.25, "val_loss": 0.5}
        >>> epoch_line(EpochMetrics(epoch=0, avg_loss=0.25, scalars=numbers, lr=0.1, seconds=2), 3, 4)
        'epoch 1/3  loss 0.25  val_loss 0.5  lr 0.1  2.0s  4.0s left'
    """
    width = len(str(epochs))
    values = "  ".join(f"{name} {value:.4g}" for name, value in metrics.scalars.items())
    end = f"  {format_duration(left)} left" if left > 0 else ""
    took = format_duration(metrics.seconds)
    return (
        f"epoch {metrics.epoch + 1:{width}d}/{epochs}  {values}  lr {metrics.lr:.4g}  {took}{end}"
    )


@final
class Notices:
    """Notices of a training, shown, kept, and sent to the monitor.

    Each is of a kind: `step`, `resume`, `checkpoint`, `evaluation`, `alert`, `pause`, `stop`.
    """

    def __init__(self, progress: Progress, monitor: MonitorLike | None) -> None:
        self.lines: list[str] = []
        self._progress = progress
        self._monitor = monitor

    def add(self, kind: str, line: str) -> None:
        """Show a line, keep it, and tell the monitor."""
        self.lines.append(line)
        self._progress.note(line)
        if self._monitor is not None:
            self._monitor.event(kind, line)

    def report(self, kind: str) -> _Report:
        """Return a function of the line alone."""
        return _Report(self, kind)


@final
class _Report:
    def __init__(self, notices: Notices, kind: str) -> None:
        self._notices = notices
        self._kind = kind

    def __call__(self, line: str) -> None:
        self._notices.add(self._kind, line)
