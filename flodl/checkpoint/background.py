"""Checkpoints in the background: a copy of the model on the host, and a thread that writes it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, final

from flodl.checkpoint.store import Target, tensors_of, write
from flodl.checkpoint.tensors import copies_on_host
from flodl.checkpoint.topology import topology_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSnapshot:
    """The values of a model at one moment, on the host, sharing nothing with it."""

    tensors: Mapping[str, Tensor]
    structural_hash: str
    topology: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    epoch: int = 0

    def save(self, target: Target) -> None:
        """Write the snapshot to a path or a binary stream, as `save` would have written the model.

        Raises:
            CheckpointError: the file cannot be written.
        """
        metadata = {
            "fdl.structural_hash": self.structural_hash,
            "fdl.topology": self.topology,
            "fdl.epoch": str(self.epoch),
            **{f"metric.{name}": repr(value) for name, value in self.metrics.items()},
        }
        write(target, self.tensors, metadata)


def snapshot_cpu(
    module: nn.Module, *, metrics: Mapping[str, float] | None = None, epoch: int = 0
) -> ModelSnapshot:
    """Copy the values of a module to the host; training may continue as soon as this returns."""
    topology = topology_of(module)
    return ModelSnapshot(
        tensors=copies_on_host(tensors_of(module)),
        structural_hash=topology.hash(),
        topology=topology.to_json(),
        metrics=dict(metrics or {}),
        epoch=epoch,
    )


@final
class CpuWorker:
    """One thread that runs tasks in order; `finish` or `submit` raises their errors.

    Example:
        >>> done = []
        >>> with CpuWorker() as worker:
        ...     worker.submit(lambda: done.append(1))
        >>> done
        [1]
    """

    def __init__(self) -> None:
        self._tasks: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._error: BaseException | None = None
        # Not a daemon: a program that ends waits for its last checkpoint.
        self._thread = threading.Thread(target=self._work, name="flodl-cpu-worker")
        self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._tasks and not self._closed and self._owner_lives():
                    self._changed.wait(timeout=1.0)
                if not self._tasks:
                    return
                task = self._tasks.popleft()
                self._busy = True
            try:
                task()
            except BaseException as error:  # kept for the thread that waits
                with self._changed:
                    self._error = self._error or error

    @staticmethod
    def _owner_lives() -> bool:
        # A worker without a call of `finish` must not keep the program from ending.
        return threading.main_thread().is_alive()

    def submit(self, task: Callable[[], object]) -> None:
        """Queue a task and return at once.

        Raises:
            RuntimeError: the worker is finished.
            BaseException: the error of an earlier task.
        """
        with self._changed:
            self._raise_error()
            if self._closed:
                raise RuntimeError("the worker is finished; make a new one")
            self._tasks.append(task)
            self._changed.notify_all()

    def is_idle(self) -> bool:
        """Return whether nothing is being done and nothing waits."""
        with self._changed:
            return not self._busy and not self._tasks

    def finish(self) -> None:
        """Wait for everything that was submitted and end the thread; calling it again does nothing.

        Raises:
            BaseException: the first error of a task.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        with self._changed:
            self._raise_error()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(self, *_: object) -> None:
        """Finish."""
        self.finish()
