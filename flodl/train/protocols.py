"""Protocols of the objects that a training uses and does not make itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


class MonitorLike(Protocol):
    """The interface of a monitor to a training; `flodl.Monitor` has it."""

    def record(self, step: int, values: Mapping[str, Tensor | float], /) -> object:
        """Take the values of one step; it must not wait for the device."""
        ...

    def log(self, epoch: int, elapsed: float, metrics: Mapping[str, float], /) -> object:
        """Take the values of one epoch."""
        ...

    def event(self, kind: str, message: str, /) -> object:
        """Take something that happened."""
        ...

    def watch(self, model: nn.Module, /) -> object:
        """Learn about the model."""
        ...

    def flush(self) -> object:
        """Put what was taken where it is safe."""
        ...

    def finish(self) -> object:
        """Know that the training is over."""
        ...


@runtime_checkable
class Asking(Protocol):
    """A monitor whose page can ask for something."""

    def requests(self) -> tuple[str, ...]:
        """Return the requests since the last call: `save`, `stop`, `pause`."""
        ...


class Batches(Protocol):
    """The batches of one epoch."""

    def __next__(self) -> Any:
        """Return the next batch."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Return itself."""
        ...

    def close(self) -> None:
        """End background work."""
        ...


class Source(Protocol):
    """Batches by epoch and position.

    Attributes:
        replays: to begin in the middle of an epoch, the batches before are read again, with the random
            numbers of the beginning of that epoch.
        abrupt: waiting for a batch may be given up at any moment without leaving a trace.
    """

    replays: bool
    abrupt: bool

    def epoch(self, number: int, start: int = 0, /) -> Batches:
        """Return the batches of an epoch from a position on."""
        ...

    def length(self) -> int | None:
        """Return the number of batches of an epoch, if it is known."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the order of batches, to notice another order in another run."""
        ...
