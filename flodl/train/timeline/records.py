"""Samples and events of a timeline, and what follows from them: idle gaps, their causes, a summary.

Example: a GPU, sampled every 0.1 s, and a checkpoint.

    at       0.0  0.1  0.2  0.3  0.4  0.5  0.6
    GPU %     97   98    2    0    1   96   97
    event                      checkpoint

    gap      cuda:0, from 0.2 to 0.5, cause: checkpoint
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

# Events that begin or end a longer part of a training: by themselves they explain no waiting.
_FRAMES: Final = frozenset({"epoch_end"})
_OWN: Final = ("process", "cpu")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSample:
    """The state of a machine at one moment.

    Attributes:
        at: seconds since the timeline began.
        values: percentages (`cpu`, `process`, `gpu` or `gpu0.gpu`), bytes (`ram_used`, `vram_used`), and
            what else the machine tells.

    Example:
        >>> from flodl.train.timeline import TimelineSample
        >>> TimelineSample(at=0.1, values={"cpu": 12.0}).values["cpu"]
        12.0
    """

    at: float
    values: Mapping[str, float]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """Something that happened at one moment.

    Attributes:
        at: seconds since the timeline began.
        kind: `epoch_start`, `epoch_end`, `sync_start`, `sync_end`, `anchor`, `throttle`, a kind of notice
            such as `checkpoint`, or a word of your own.
        detail: numbers and texts about it, by name.

    Example:
        >>> from flodl.train.timeline import TimelineEvent
        >>> TimelineEvent(at=1.5, kind="sync_end", detail={"seconds": 0.002}).kind
        'sync_end'
    """

    at: float
    kind: str
    detail: Mapping[str, float | str] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBatch:
    """The samples and events since the last batch.

    Attributes:
        samples: samples in order.
        events: events as they were told.

    Example:
        >>> from flodl.train.timeline import TimelineBatch, TimelineEvent
        >>> batch = TimelineBatch(samples=(), events=(TimelineEvent(at=0.0, kind="loading"),))
        >>> [event.kind for event in batch.events]
        ['loading']
    """

    samples: tuple[TimelineSample, ...]
    events: tuple[TimelineEvent, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IdleGap:
    """A time in which a device did almost nothing.

    Attributes:
        device: a GPU such as `cuda:0`, `process`, or `cpu`.
        start: seconds since the timeline began.
        end: when the device was busy again, or the last sample.
        causes: kinds of the events in that time, each one once.

    Example:
        >>> from flodl.train.timeline import IdleGap
        >>> gap = IdleGap(device="cuda:0", start=2.0, end=3.5, causes=("checkpoint",))
        >>> gap.seconds, gap.causes
        (1.5, ('checkpoint',))
    """

    device: str
    start: float
    end: float
    causes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Length of the gap."""
        return self.end - self.start


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSummary:
    """A timeline in numbers.

    Attributes:
        seconds: from the first to the last sample.
        samples: number of samples that were taken.
        events: number of events by kind.
        busy: mean percentage of each device.
        idle: part of the time, from 0 to 1, in which a device was below 5 %.
        mean_sync: mean seconds of a sum over several devices; 0 without one.

    Example:
        >>> from flodl.train.timeline import TimelineSummary
        >>> print(TimelineSummary(
        ...     seconds=60.0, samples=600, events={"checkpoint": 2}, busy={"cuda:0": 91.0},
        ...     idle={"cuda:0": 0.04}, mean_sync=0.0,
        ... ))
        60.0 s: cuda:0 91 % busy, idle 4 % of the time; 2 checkpoint
    """

    seconds: float
    samples: int
    events: Mapping[str, int]
    busy: Mapping[str, float]
    idle: Mapping[str, float]
    mean_sync: float

    def __str__(self) -> str:
        parts = [
            f"{device} {self.busy[device]:.0f} % busy, idle {100 * self.idle[device]:.0f} % of the time"
            for device in self.busy
        ]
        counts = ", ".join(f"{count} {kind}" for kind, count in self.events.items())
        parts.append(counts or "no events")
        if self.mean_sync:
            parts.append(f"mean sync {1000 * self.mean_sync:.1f} ms")
        return f"{self.seconds:.1f} s: " + "; ".join(parts)


def load_names(values: Mapping[str, float]) -> dict[str, str]:
    """Return the names of the percentages of devices: device -> name.

    Example:
        >>> load_names({"cpu": 50.0, "gpu0.gpu": 90.0, "gpu1.gpu": 10.0, "gpu": 50.0, "ram_used": 1.0})
        {'cuda:0': 'gpu0.gpu', 'cuda:1': 'gpu1.gpu', 'cpu': 'cpu'}
    """
    several = [name for name in values if name.startswith("gpu") and name.endswith(".gpu")]
    found = {f"cuda:{name.removeprefix('gpu').removesuffix('.gpu')}": name for name in several}
    if not several and "gpu" in values:
        found["cuda:0"] = "gpu"
    return found | {name: name for name in _OWN if name in values}


def merged(samples: Sequence[TimelineSample]) -> TimelineSample:
    """Return the mean of samples that follow each other, at the time of the first."""
    names = dict.fromkeys(name for each in samples for name in each.values)
    values = {}
    for name in names:
        held = [each.values[name] for each in samples if name in each.values]
        values[name] = sum(held) / len(held)
    return TimelineSample(at=samples[0].at, values=values)


def find_gaps(
    samples: Sequence[TimelineSample],
    events: Sequence[TimelineEvent],
    device: str,
    *,
    below: float,
    shortest: float,
    around: float,
) -> Iterator[IdleGap]:
    """Yield the idle gaps of a device, in order.

    Args:
        samples: samples in order.
        events: events in order.
        device: name of the device.
        below: percentage under which it is idle.
        shortest: seconds that a gap lasts at least.
        around: seconds before and after a gap in which an event still is a cause.
    """
    start: float | None = None
    for each in samples:
        name = load_names(each.values).get(device)
        if name is None:
            continue
        if each.values[name] < below:
            start = each.at if start is None else start
        elif start is not None:
            yield from _gap(device, start, each.at, shortest, events, around)
            start = None
    if start is not None:
        yield from _gap(device, start, samples[-1].at, shortest, events, around)


def _gap(
    device: str,
    start: float,
    end: float,
    shortest: float,
    events: Sequence[TimelineEvent],
    around: float,
) -> Iterator[IdleGap]:
    if end - start < shortest:
        return
    inside = [each.kind for each in events if start - around <= each.at <= end + around]
    causes = tuple(dict.fromkeys(kind for kind in inside if kind not in _FRAMES))
    yield IdleGap(device=device, start=start, end=end, causes=causes)
