"""Lines of a file in which ranks tell the process that began their training of windows, epochs, evaluations.

The first rank that is alive writes them. Example: rank 0 dies after the second window of an epoch.

    {"window": {"step": 14, "seconds": 0.1, "loss": 2.1, "per_rank": [...], ...}}     rank 0
    {"window": {"step": 28, ...}}                                                     rank 0
    {"epoch": {"epoch": 0, "avg_loss": 2.0, ...}}                                     rank 1
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from flodl.train.state import (
    EpochMetrics,
    EvaluationReport,
    WindowReport,
    metrics_of,
    report_of,
)


@final
class Teller:
    """The hooks of a rank that tells of epochs and windows, if it is the first one.

    Args:
        path: the file.
        is_first: returns True for the first rank that is alive.
    """

    def __init__(self, path: Path, is_first: Callable[[], bool]) -> None:
        self._path = path
        self._is_first = is_first

    def epoch(self, training: Any, metrics: EpochMetrics) -> None:
        """Append an epoch."""
        del training
        self._append("epoch", asdict(metrics))

    def window(self, training: Any, report: WindowReport) -> None:
        """Append a window."""
        del training
        self._append("window", asdict(report))

    def evaluation(self, training: Any, report: EvaluationReport) -> None:
        """Append an evaluation on request."""
        del training
        self._append("evaluation", asdict(report))

    def _append(self, kind: str, value: Mapping[str, Any]) -> None:
        if self._is_first():
            with self._path.open("ab", buffering=0) as file:
                file.write((json.dumps({kind: value}) + "\n").encode())


@final
class Told:
    """The file as the other process reads it: each line once, as soon as it is whole.

    Args:
        path: the file; it may be absent yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0  # bytes
        # The last ones: a rank that follows may tell them again.
        self._epoch = self._step = self._evaluated = -1

    def new(self) -> Iterator[EpochMetrics | WindowReport | EvaluationReport]:
        """Return what was told since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            told = json.loads(line)
            if "window" in told:
                report = report_of(told["window"])
                if report.step > self._step:
                    self._step = report.step
                    yield report
                continue
            if "evaluation" in told:
                evaluated = EvaluationReport(**told["evaluation"])
                if evaluated.step > self._evaluated:
                    self._evaluated = evaluated.step
                    yield evaluated
                continue
            metrics = metrics_of(told["epoch"])
            if metrics.epoch > self._epoch:
                self._epoch = metrics.epoch
                yield metrics
