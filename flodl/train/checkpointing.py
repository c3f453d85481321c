"""Checkpoints of a training: when they are due, what is in them, and how a training continues from one."""

from __future__ import annotations

import hashlib
import inspect
import io
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, final

import torch
from torch import Tensor

from flodl import log
from flodl.checkpoint.restore import HasState
from flodl.checkpoint.tensors import as_bytes
from flodl.checkpoint.topology import structural_hash
from flodl.checkpoint.training import Resumed, TrainingSnapshot, resume_with, snapshot_training
from flodl.errors import TrainingError
from flodl.runs.checkpoints import Saved
from flodl.runs.directory import RunDirectory
from flodl.runs.environment import environment, find_changes
from flodl.train.settings import HARMLESS, Settings
from flodl.train.training import Training
from flodl.train.writer import Writer

# "auto", or where to continue from.
ResumeFrom: TypeAlias = str | Path | RunDirectory

_LONG = 0.05  # seconds of writing that a training should not wait for


@final
class Checkpointing:
    """Saves and resumes.

    Attributes:
        directory: where checkpoints go; without it none are written.
        last: the last checkpoint that is safe.
        seconds: how long the last one took to write.
        extra: returns further content of a checkpoint.
        is_writer: returns whether this process writes; of several that train together, one does.
    """

    def __init__(
        self,
        directory: RunDirectory | None,
        settings: Settings,
        training: Training,
        parts: Mapping[str, HasState],
    ) -> None:
        self.directory = directory
        self.last: Saved | None = None
        self.seconds = 0.0
        self.extra: Callable[[], dict[str, Any]] = dict
        self.is_writer: Callable[[], bool] = _always
        self._settings = settings
        self._training = training
        self._parts = dict(parts)
        self._writer = Writer()
        self._time = time.monotonic()
        self._step = training.step

    # ---- when --------------------------------------------------------------------------------

    def next_step(self) -> float:
        """Return the step at which a checkpoint is due."""
        every = self._settings.save_steps
        return self._step + every if every and self.directory else math.inf

    def next_time(self) -> float:
        """Return the moment, on the monotonic clock, at which a checkpoint is due."""
        every = self._settings.save_seconds
        return self._time + every if every and self.directory else math.inf

    def due(self) -> bool:
        """Return whether one is due inside an epoch."""
        return self._training.step >= self.next_step() or time.monotonic() >= self.next_time()

    def due_after_epoch(self) -> bool:
        """Return whether one is due at the end of an epoch that has just been counted."""
        every = self._settings.save_epochs
        ended = self._training.epoch >= self._settings.epochs or bool(self._training.stopping)
        return ended or (every is not None and self._training.epoch % every == 0) or self.due()

    # ---- saving ------------------------------------------------------------------------------

    def save(self, reason: str, *, wait: bool = False) -> Saved | None:
        """Write a checkpoint, if there is a directory for it, or begin to.

        Returns:
            The checkpoint, if it is safe already; otherwise `written` returns it later.

        Raises:
            CheckpointError: it cannot be written; those before are untouched.
        """
        if self.directory is None:
            return None
        training = self._training
        if not self.is_writer():
            self._step, self._time = training.step, time.monotonic()
            return None
        fields = {
            "step": training.step,
            "epoch": training.epoch,
            "metrics": training.log.latest(),
            "reason": reason,
        }
        snapshot = self._snapshot({})
        keep, checkpoints = self._settings.keep, self.directory.checkpoints
        self._step, self._time = training.step, time.monotonic()
        self._writer.begin(lambda: checkpoints.write(fields, snapshot.save, keep))
        beside = self._settings.save_beside
        if beside is None:
            beside = self.seconds > _LONG
        return None if beside and not wait else self.written(wait=True)

    def packed(self, more: Mapping[str, Any]) -> Tensor:
        """Return a checkpoint of this moment as bytes, for a process that joins the training now.

        Args:
            more: further plain values for it.
        """
        file = io.BytesIO()
        self._snapshot({**more, "saved": [self._step, self._time - time.monotonic()]}).save(file)
        return torch.frombuffer(bytearray(file.getbuffer()), dtype=torch.uint8)

    def unpack(self, packed: Tensor, accept: Callable[[Mapping[str, Any]], object]) -> None:
        """Continue from what `packed` returned in another process; `accept` is given its further values.

        Raises:
            CheckpointError: it does not fit.
        """
        found = self._resume_with(io.BytesIO(as_bytes(packed)), accept)
        step, since = found.extra["saved"]
        self._step, self._time = step, time.monotonic() + since

    def written(self, *, wait: bool = False) -> Saved | None:
        """Return the checkpoint that has become safe since the last call, if there is one.

        Raises:
            CheckpointError: it could not be written.
        """
        saved = self._writer.result(wait=wait)
        if saved is not None:
            self.last, self.seconds = saved, self._writer.seconds
            log.verbose("checkpoint of step %s written to %s", saved.step, saved.path)
        return saved

    # ---- resuming ----------------------------------------------------------------------------

    def resume(
        self,
        source: ResumeFrom,
        report: Callable[[str], object],
        accept: Callable[[Mapping[str, Any]], object],
    ) -> None:
        """Continue from a checkpoint if there is one; `accept` is given what `extra` put into it.

        Raises:
            CheckpointError: it does not fit.
            TrainingError: there is no checkpoint where one was named.
        """
        saved = self._find(source, report)
        if saved is None:
            return
        found = saved.path
        self._resume_with(found, accept)
        self._step = self._training.step
        if self.directory is not None and found.parent == self.directory.checkpoints.path:
            self.last = saved
        where = f"epoch {self._training.epoch}, batch {self._training.position}"
        report(f"resumed from {found} at step {self._training.step} ({where})")

    def _snapshot(self, more: Mapping[str, Any]) -> TrainingSnapshot:
        training = self._training
        return snapshot_training(
            training.model,
            training.optimizer,
            epoch=training.epoch,
            step=training.step,
            parts=self._parts,
            extra={**self.extra(), **more},
        )

    def _resume_with(
        self, source: Path | BinaryIO, accept: Callable[[Mapping[str, Any]], object]
    ) -> Resumed:
        return resume_with(
            source,
            self._training.model,
            self._training.optimizer,
            parts=self._parts,
            random_numbers=True,
            accept=(accept, lambda: None),
        )

    def _find(self, source: ResumeFrom, report: Callable[[str], object]) -> Saved | None:
        if source == "auto":
            if self.directory is None:
                raise TrainingError('resume("auto") needs a run directory: add .run_dir(PATH)')
            return self.directory.checkpoints.latest(report)
        if isinstance(source, str | Path) and Path(source).is_file():
            return Saved(path=Path(source), step=0)
        run = source if isinstance(source, RunDirectory) else RunDirectory.open(source)
        saved = run.checkpoints.latest(report)
        if saved is None:
            raise TrainingError(f"{run.path}: there is no checkpoint to resume from")
        return saved


def _always() -> bool:
    return True


def config_of(
    settings: Settings, training: Training, train_fn: Any, data: Mapping[str, Any]
) -> dict[str, Any]:
    """Return how a run is set up, as plain values."""
    return {
        "settings": settings.plain(),
        "data": dict(data),
        "model": type(training.model).__qualname__,
        "structural_hash": structural_hash(training.model),
        "parameters": sum(each.numel() for each in training.model.parameters()),
        "optimizer": type(training.optimizer).__name__,
        "device": str(training.device),
        "train_function": _digest(train_fn),
    }


def find_differences(directory: RunDirectory, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how this process differs from the one that began a run, one line each."""
    before = directory.config
    found = list(find_changes(directory.environment, environment()))
    for name, value in config.items():
        old = before.get(name, value)
        if isinstance(value, dict) and isinstance(old, dict):
            found += [
                f"{name}: `{key}` was {old.get(key)}, is {each}"
                for key, each in value.items()
                if key not in HARMLESS and old.get(key, each) != each
            ]
        elif old != value:
            found.append(f"{name}: was {old}, is {value}")
    return tuple(found)


def _digest(function: Any) -> str:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return "unknown"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
