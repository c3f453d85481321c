"""The checkpoints of one run: written whole or not at all, the last and the best of them kept."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, final

from flodl.checkpoint.contents import open_contents
from flodl.errors import CheckpointError, RunError
from flodl.runs.notes import read_note, write_note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_NAME = re.compile(r"step-(\d+)\.fdl")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One checkpoint of a run.

    Attributes:
        path: the file.
        step: steps that were taken.
        epoch: epochs that were finished.
        metrics: the last epoch values at that time.
        reason: why it was written, such as "epoch" or "SIGTERM".
    """

    path: Path
    step: int
    epoch: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The checkpoints that stay: the `last` ones, and the `best` ones by a metric.

    Attributes:
        last: how many of the newest; at least 1.
        best: how many of the best.
        metric: the metric that says which is better.
        mode: whether lower (`min`) or higher (`max`) is better.
    """

    last: int = 3
    best: int = 1
    metric: str = "loss"
    mode: Literal["min", "max"] = "min"

    def __post_init__(self) -> None:
        if self.last < 1 or self.best < 0:
            message = f"keep at least the last checkpoint; got last={self.last}, best={self.best}"
            raise ValueError(message)
        if self.mode not in ("min", "max"):
            raise ValueError(f"mode is one of min, max, got {self.mode!r}")


@final
class Checkpoints:
    """The checkpoints in a folder: there is no list beside the files that could disagree with them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(
        self, saved: Mapping[str, Any], put: Callable[[Path], None], keep: Keep | None = None
    ) -> Saved:
        """Write a checkpoint with `put`, a note beside it, and remove what need not be kept.

        Args:
            saved: the fields of `Saved`, without the path.
            put: writes the file; it must leave the old or the new one, never half.
            keep: the checkpoints that stay; all if not given.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / f"step-{saved['step']:09d}.fdl"
        put(path)
        entry = Saved(path=path, **saved)
        note = {**asdict(entry), "path": path.name, "metrics": dict(entry.metrics)}
        write_note(path.with_suffix(".json"), note, durable=False)
        if keep is not None:
            self.prune(keep)
        return entry

    def entries(self) -> tuple[Saved, ...]:
        """Return the checkpoints, oldest first."""
        if not self.path.is_dir():
            return ()
        found = [each for each in self.path.iterdir() if _NAME.fullmatch(each.name)]
        return tuple(sorted(map(_described, found), key=lambda each: each.step))

    def latest(self, report: Callable[[str], object] | None = None) -> Saved | None:
        """Return the newest checkpoint that is whole; `report` is told about damaged ones."""
        for each in reversed(self.entries()):
            try:
                open_contents(each.path).require_sound()
            except CheckpointError as error:
                if report is not None:
                    report(f"passed over a damaged checkpoint: {error}")
            else:
                return each
        return None

    def best(self, metric: str = "loss", mode: Literal["min", "max"] = "min") -> Saved | None:
        """Return the checkpoint with the best value of a metric, the later one of equals."""
        ranked = self._ranked(metric, mode)
        return ranked[0] if ranked else None

    def prune(self, keep: Keep) -> None:
        """Remove every checkpoint that is neither among the last nor among the best."""
        listed = self.entries()
        staying = {each.path for each in listed[-keep.last :]}
        staying |= {each.path for each in self._ranked(keep.metric, keep.mode)[: keep.best]}
        for each in listed:
            if each.path not in staying:
                # The note last: a file without one is still a checkpoint.
                each.path.unlink(missing_ok=True)
                each.path.with_suffix(".json").unlink(missing_ok=True)

    def _ranked(self, metric: str, mode: Literal["min", "max"]) -> list[Saved]:
        sign = 1.0 if mode == "min" else -1.0
        able = [
            each
            for each in self.entries()
            if each.metrics.get(metric) == each.metrics.get(metric)  # not a number is not better
            and metric in each.metrics
        ]
        return sorted(able, key=lambda each: (sign * each.metrics[metric], -each.step))


def _described(path: Path) -> Saved:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    try:
        note = read_note(path.with_suffix(".json"))
        return Saved(
            path=path,
            step=int(match[1]),
            epoch=int(note["epoch"]),
            metrics={str(name): float(value) for name, value in note["metrics"].items()},
            reason=str(note["reason"]),
        )
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return Saved(path=path, step=int(match[1]))
