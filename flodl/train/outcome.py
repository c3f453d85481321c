"""The outcome of a training: a handle to join, or an exit after a signal."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol, final

from flodl.errors import TrainingError
from flodl.train.state import EpochMetrics, EvaluationReport, TrainedState

_LOOK: Final = 0.05  # seconds


class Running(Protocol):
    """A training that runs in other processes."""

    def join(self) -> tuple[TrainedState, list[EpochMetrics]]:
        """Wait for the end; return the state and the epochs that were not returned yet."""
        ...

    def metrics(self) -> list[EpochMetrics]:
        """Return the epochs that ended since the last call."""
        ...

    def is_running(self) -> bool:
        """Return True while a process trains."""
        ...

    def pids(self) -> dict[int, int]:
        """Return the id of each process."""
        ...

    def add(self, device: str) -> int:
        """Start one more rank, and return its id."""
        ...

    def request(self, text: str) -> None:
        """Ask all processes for something."""
        ...

    def evaluations(self) -> list[EvaluationReport]:
        """Return the evaluations on request so far."""
        ...


@final
class Interrupted(SystemExit):
    """A signal ended the training after a checkpoint was written; uncaught, the process ends like that.

    The exit code is 128 + the number of the signal, as shells and batch systems expect.

    Attributes:
        signal: the number of the signal.
        state: the weights as they are.

    Example:
        >>> import signal
        >>> from flodl import Interrupted, TrainedState
        >>> Interrupted(signal.SIGTERM, TrainedState(parameters={}, buffers={})).code
        143
    """

    def __init__(self, number: int, state: TrainedState) -> None:
        self.signal = signal.Signals(number)
        self.state = state
        super().__init__(128 + number)


@final
class RunHandle:
    """A training that has run; `join()` returns its result.

    Example:
        >>> from flodl import EpochMetrics, RunHandle, TrainedState
        >>> state = TrainedState(parameters={}, buffers={}, history=(EpochMetrics(epoch=0, avg_loss=1.0),))
        >>> handle = RunHandle(state, (), None)
        >>> handle.next_metrics().avg_loss, handle.next_metrics(), handle.world_size()
        (1.0, None, 1)
    """

    def __init__(
        self,
        state: TrainedState | None,
        devices: Sequence[Any],
        model: Any,
        running: Running | None = None,
    ) -> None:
        self._state = state
        self._devices = tuple(devices)
        self._model = model
        self._running = running
        self._waiting = deque(() if state is None else state.history)

    def join(self) -> TrainedState:
        """Return the trained weights and the history, and wait for them where processes train.

        Raises:
            WorkerError: a process of the training raised an error, or all died.
            Interrupted: a signal ended the training.
        """
        if self._state is None:
            assert self._running is not None
            self._state, found = self._running.join()
            self._waiting.extend(found)
        return self._state

    def next_metrics(self) -> EpochMetrics | None:
        """Return the next epoch that was not returned yet, nothing after the last one; wait for it."""
        while (found := self.poll_metrics()) is None and self._state is None:
            if self._running is not None and not self._running.is_running():
                self.join()
            time.sleep(_LOOK)
        return found

    def poll_metrics(self) -> EpochMetrics | None:
        """Return the next epoch if it is there already."""
        if self._state is None and self._running is not None:
            self._waiting.extend(self._running.metrics())
        return self._waiting.popleft() if self._waiting else None

    def world_size(self) -> int:
        """Return how many processes train."""
        return max(1, len(self._devices))

    def pids(self) -> dict[int, int]:
        """Return the id of the process of each rank; empty for a training in this process."""
        return {} if self._running is None else self._running.pids()

    def devices(self) -> tuple[Any, ...]:
        """Return the devices that were used."""
        return self._devices

    def add_rank(self, device: str) -> int:
        """Start one more rank on a device, and return its id; it joins the training between two windows.

        Args:
            device: name of the device, such as `"cpu"` or `"cuda:1"`.

        Raises:
            TrainingError: the training runs in this process, or has ended.
            TeamError: torch knows no such device, or another rank has it.

        Example:
            >>> from flodl import RunHandle, TrainedState, TrainingError
            >>> handle = RunHandle(TrainedState(parameters={}, buffers={}), (), None)
            >>> try:
            ...     handle.add_rank("cpu")
            ... except TrainingError as problem:
            ...     print(problem)
            no rank can join this training: it does not run in other processes any more; \
start it with .devices(...), and add ranks before it ends
        """
        if self._running is None or self._state is not None:
            raise TrainingError(
                "no rank can join this training: it does not run in other processes any more; start it "
                "with .devices(...), and add ranks before it ends"
            )
        return self._running.add(device)

    def request_checkpoint(self) -> None:
        """Let the ranks save a checkpoint after the window that they train now.

        Raises:
            TrainingError: the training runs in this process, or has ended.
        """
        self._request("save", "a checkpoint")

    def request_eval(self) -> None:
        """Let the ranks evaluate after the window that they train now, with the weights that all then hold.

        The result appears in `evaluations`, in the monitor, and at the event `evaluation`. The numbers of
        the training stay as without it.

        Raises:
            TrainingError: the training runs in this process, or has ended.

        Example:
            >>> from flodl import RunHandle, TrainedState, TrainingError
            >>> handle = RunHandle(TrainedState(parameters={}, buffers={}), (), None)
            >>> try:
            ...     handle.request_eval()
            ... except TrainingError as problem:
            ...     print(problem)
            an evaluation cannot be had on request: the training does not run in other processes any more; \
start it with .devices(...), and ask before it ends
        """
        self._request("evaluate", "an evaluation")

    def evaluations(self) -> list[EvaluationReport]:
        """Return the evaluations on request that have ended, in order."""
        if self._running is None:
            return []
        if self._state is None:
            self._waiting.extend(self._running.metrics())
        return self._running.evaluations()

    def _request(self, text: str, wanted: str) -> None:
        if self._running is None or self._state is not None:
            raise TrainingError(
                f"{wanted} cannot be had on request: the training does not run in other processes any more; "
                "start it with .devices(...), and ask before it ends"
            )
        self._running.request(text)

    def architecture_svg(self) -> str | None:
        """Return the drawing of the model, if it is a graph."""
        from flodl.graph.planned_module import PlannedModule
        from flodl.inspect.pictures import svg

        return svg(self._model) if isinstance(self._model, PlannedModule) else None
