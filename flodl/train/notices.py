"""Notices of a training: shown, kept, and sent to the monitor."""

from __future__ import annotations

from typing import final

from flodl.train.progress import Progress
from flodl.train.protocols import MonitorLike


@final
class Notices:
    """Takes lines of a kind: `step`, `resume`, `checkpoint`, `alert`, `stop`."""

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
