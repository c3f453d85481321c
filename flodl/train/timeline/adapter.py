"""A monitor that tells a timeline what it is told, and passes everything on to another monitor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from flodl.train.state import EpochMetrics
    from flodl.train.timeline.timeline import Timeline


class _Inner(Protocol):
    def record(self, step: int, values: Mapping[str, Tensor | float], /) -> object: ...
    def log(self, epoch: int, elapsed: float, metrics: Mapping[str, float], /) -> object: ...
    def event(self, kind: str, message: str, /) -> object: ...
    def watch(self, model: nn.Module, /) -> object: ...
    def flush(self) -> object: ...
    def finish(self) -> object: ...


@runtime_checkable
class _Asking(Protocol):
    def requests(self) -> tuple[str, ...]: ...


@runtime_checkable
class _Describing(Protocol):
    def set_metadata(self, metadata: Mapping[str, Any], /) -> object: ...


@final
class TimedMonitor:
    """The monitor of a training with a timeline.

    Args:
        timeline: gets the events.
        inner: the monitor that the training has besides, if any.
        hears_epochs: whether `begin_epoch` and `end_epoch` are called, so that `log` need not tell when an
            epoch was.
    """

    def __init__(
        self, timeline: Timeline, inner: _Inner | None, *, hears_epochs: bool = False
    ) -> None:
        self._timeline = timeline
        self._inner = inner
        self._hears_epochs = hears_epochs
        self._anchor = 0.0
        self._ended = time.monotonic()  # when the last epoch ended

    def record(self, step: int, values: Mapping[str, Tensor | float]) -> None:
        """Take the values of a step, or of a window of several devices."""
        if "team/size" in values:
            self._window(values)
        if self._inner is not None:
            self._inner.record(step, values)

    def _window(self, values: Mapping[str, Any]) -> None:
        seconds = float(values.get("team/sync", 0.0))
        if seconds:
            self._timeline.event("sync_start", ago=seconds)
            self._timeline.event("sync_end", seconds=seconds)
        anchor = float(values.get("team/anchor", 0.0))
        if anchor and self._anchor and anchor != self._anchor:
            self._timeline.event("anchor", before=self._anchor, after=anchor)
        self._anchor = anchor or self._anchor

    def log(self, epoch: int, elapsed: float, metrics: Mapping[str, float]) -> None:
        """Take the values of an epoch, whose beginning is its end without its seconds."""
        now = time.monotonic()
        if not self._hears_epochs:
            self._timeline.event("epoch_start", ago=min(elapsed, now - self._ended), epoch=epoch)
            self._end(epoch, metrics)
        self._ended = now
        if self._inner is not None:
            self._inner.log(epoch, elapsed, metrics)

    def begin_epoch(self, epoch: int, training: object) -> None:
        """Know that an epoch begins; a callback of the trainer."""
        del training
        self._timeline.event("epoch_start", epoch=epoch)

    def end_epoch(self, training: object, metrics: EpochMetrics) -> None:
        """Know that an epoch is over, before other callbacks take their time; a callback of the trainer."""
        del training
        self._end(metrics.epoch, metrics.scalars)

    def _end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        loss = metrics.get("loss")
        detail = {} if loss is None else {"loss": loss}
        self._timeline.event("epoch_end", epoch=epoch, **detail)

    def event(self, kind: str, message: str) -> None:
        """Take a notice: a checkpoint, an evaluation, a rank that died."""
        self._timeline.event(kind, message=message)
        if self._inner is not None:
            self._inner.event(kind, message)

    def watch(self, model: nn.Module) -> None:
        """Learn about the model."""
        if self._inner is not None:
            self._inner.watch(model)

    def flush(self) -> None:
        """Know that the training ended before its last epoch: the timeline ends too."""
        self._timeline.stop()
        if self._inner is not None:
            self._inner.flush()

    def finish(self) -> None:
        """Know that the training is over: the timeline ends too."""
        self._timeline.stop()
        if self._inner is not None:
            self._inner.finish()

    def requests(self) -> tuple[str, ...]:
        """Return the requests from the page of the other monitor."""
        inner: object = self._inner
        return inner.requests() if isinstance(inner, _Asking) else ()

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Take plain values by name."""
        shows: object = self._inner
        if isinstance(shows, _Describing):
            shows.set_metadata(metadata)
