"""The progress bar that `console` shows on a terminal, drawn by `rich`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, final

from rich.console import Console as RichConsole
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


@final
class _Bar:
    """One task of a rich progress display."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, amount: float) -> None:
        """Add to the finished amount."""
        self._progress.advance(self._task, amount)

    def set_total(self, total: float) -> None:
        """Set the total amount."""
        self._progress.update(self._task, total=total)


@contextmanager
def progress_bar(
    stream: TextIO, title: str, total: float | None, *, color: bool
) -> Iterator[_Bar]:
    """Draw a bar of bytes on a terminal until the block ends, then remove it."""
    console = RichConsole(file=stream, force_terminal=True, no_color=not color)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress, progress.add_task(title, total=total))
