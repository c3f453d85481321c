"""The outcome of a training: a handle to join, or an exit after a signal."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Sequence
from typing import Any, final

from flodl.train.state import EpochMetrics, TrainedState


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

    def __init__(self, state: TrainedState, devices: Sequence[Any], model: Any) -> None:
        self._state = state
        self._devices = tuple(devices)
        self._model = model
        self._waiting = deque(state.history)

    def join(self) -> TrainedState:
        """Return the trained weights and the history."""
        return self._state

    def next_metrics(self) -> EpochMetrics | None:
        """Return the next epoch that was not returned yet, nothing after the last one."""
        return self._waiting.popleft() if self._waiting else None

    def poll_metrics(self) -> EpochMetrics | None:
        """Return the next epoch if it is there already."""
        return self.next_metrics()

    def world_size(self) -> int:
        """Return how many processes trained."""
        return 1

    def devices(self) -> tuple[Any, ...]:
        """Return the devices that were used."""
        return self._devices

    def architecture_svg(self) -> str | None:
        """Return the drawing of the model, if it is a graph."""
        from flodl.graph.planned_module import PlannedModule
        from flodl.inspect.pictures import svg

        return svg(self._model) if isinstance(self._model, PlannedModule) else None
