"""Protocols of the objects that a training uses and does not make itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from torch import Tensor, nn

if TYPE_CHECKING:
    from flodl.train.state import RankShare, WindowReport
    from flodl.train.training import Training

# Takes the loss and the metrics of a batch that was trained on, and the batch where this rank has it.
Take: TypeAlias = Callable[[Tensor, Mapping[str, Tensor], Any], object]


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
        """Return the requests since the last call: `save`, `evaluate`, `stop`, `pause`."""
        ...


@runtime_checkable
class Describing(Protocol):
    """A monitor that shows how a run is set up."""

    def set_metadata(self, metadata: Mapping[str, Any], /) -> object:
        """Take plain values by name."""
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


class StepState(Protocol):
    """A training step between two batches."""

    @property
    def at_boundary(self) -> bool:
        """Whether no update is unfinished."""
        ...

    def close(self) -> None:
        """End background work."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the state beyond model and optimizer."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any], /) -> None:
        """Continue from a saved state."""
        ...


class SharedWindows(Protocol):
    """Windows of batches that several ranks train together.

    Attributes:
        wish: returns why this rank wants to stop, empty if it does not.
        is_late: returns True if this rank wants a checkpoint now, because of the time.
        next_save: returns the step at which a checkpoint is due.
        agreed: why all ranks stop after the last window, empty if they do not.
        saves: whether all ranks save after the last window; `None` if each decides by itself.
        joins: whether ranks ask to join, as all know after the last window.
        tells_all: whether every rank is told the losses of all batches, not of its own alone.
        before: the parts of the ranks in an epoch that `begin` continues, for what `shares` returns then.
    """

    wish: Callable[[], str]
    is_late: Callable[[], bool]
    next_save: Callable[[], float]
    agreed: str
    saves: bool | None
    joins: bool
    tells_all: bool
    before: tuple[RankShare, ...]

    @property
    def asks(self) -> bool:
        """Whether all ranks know of requests, and may take them: nothing is under way."""
        ...

    @property
    def at_boundary(self) -> bool:
        """Whether no update is unfinished."""
        ...

    def take_requests(self) -> tuple[str, ...]:
        """Return the requests that were not taken, the same ones on all ranks."""
        ...

    def begin(self, training: Training, most: int | None, /) -> None:
        """Start or continue an epoch; the training ends after so many steps in total."""
        ...

    def run(self, training: Training, most: int | None, take: Take, /) -> bool:
        """Train the batches of a window and move the position; return False if the epoch is over."""
        ...

    def report(self, training: Training, /) -> WindowReport:
        """Return what the ranks did in the last window."""
        ...

    def admit(self, training: Training, most: int | None, pack: Callable[[], Tensor], /) -> None:
        """Let ranks join, and give them the state that `pack` returns."""
        ...

    def agree(self, wish: str, /) -> str:
        """Return why all ranks stop, if one of them wishes to; empty if none does."""
        ...

    def mean_of(self, values: Mapping[str, float], /) -> dict[str, float]:
        """Return the means over the ranks of values that each rank has of its own."""
        ...

    def epoch_means(self, own: Mapping[str, float], /) -> dict[str, float]:
        """Return the means over all batches of the epoch, given those of the batches that were taken."""
        ...

    def shares(self) -> tuple[RankShare, ...]:
        """Return what each rank did in this epoch."""
        ...


class Evaluating(Protocol):
    """An evaluation after an epoch."""

    def run(
        self, model: nn.Module, interruptible: Callable[[], AbstractContextManager[None]], /
    ) -> dict[str, float]:
        """Evaluate and return the means by name."""
        ...
