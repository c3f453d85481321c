"""`Timeline`: samples a machine beside a training, and keeps what happened when.

    timeline = Timeline()                                  # ten samples a second
    Trainer.builder(...).timeline(timeline).run().join()   # epochs, averages, checkpoints are events of it
    timeline.idle_gaps("cuda:0")                           # when the GPU waited, and why
    timeline.save_html("timeline.html")                    # a page with a lane for each device

A long run takes no more memory than a short one. When there are `most` samples, each two that follow each
other become their mean, and from then on each sample is the mean of twice as many looks. The newest events
are kept; their numbers by kind count all of them.
"""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections import Counter, deque
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Self, final

from flodl.errors import UnknownNameError
from flodl.monitor.resources import MachineProbe
from flodl.observe.export import write_text
from flodl.train.timeline.page import timeline_page
from flodl.train.timeline.records import (
    IdleGap,
    TimelineBatch,
    TimelineEvent,
    TimelineSample,
    TimelineSummary,
    find_gaps,
    load_names,
    merged,
)

if TYPE_CHECKING:
    from types import TracebackType

_IDLE: Final = 5.0  # percent
_UNREAD: Final = 1000  # batches that a reader may leave in its queue; later ones are not put there
_FORMAT: Final = 1


@final
class Timeline:
    """When a machine worked and when it waited, beside what a training did at that time.

    Args:
        poll_ms: milliseconds between two looks at the machine.
        broadcast_ms: milliseconds between two batches for those who subscribed.
        most: samples, and events, that are kept at most.

    Raises:
        ValueError: a number is not positive, or `most` is below 2.

    Example:
        >>> from flodl import Timeline
        >>> with Timeline(poll_ms=10) as timeline:
        ...     timeline.event("loading", file="train.bin")
        >>> [(each.kind, dict(each.detail)) for each in timeline.events()]
        [('loading', {'file': 'train.bin'})]
    """

    def __init__(
        self, poll_ms: float = 100, *, broadcast_ms: float = 1000, most: int = 50_000
    ) -> None:
        if poll_ms <= 0 or broadcast_ms <= 0 or most < 2:
            raise ValueError(
                f"poll_ms is {poll_ms}, broadcast_ms {broadcast_ms}, most {most}; the first two must be "
                "positive, and the last at least 2"
            )
        self._poll, self._broadcast = poll_ms / 1000, broadcast_ms / 1000
        self._most = most - most % 2  # so that all samples are pairs
        self._probe = MachineProbe()
        self._lock = threading.Lock()
        self._samples: list[TimelineSample] = []
        self._open: list[TimelineSample] = []  # looks of the next sample
        self._looks = 1  # looks of one sample
        self._taken = 0
        self._events: deque[TimelineEvent] = deque(maxlen=most)
        self._counts: Counter[str] = Counter()
        self._syncs, self._sync_seconds = 0, 0.0
        self._throttled = self._with_process = False
        self._readers: list[SimpleQueue[TimelineBatch]] = []
        self._fresh: tuple[list[TimelineSample], list[TimelineEvent]] = ([], [])
        self._began = time.monotonic()
        self._clock = time.time()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- recording ---------------------------------------------------------------------------

    def start(self, *, process: bool = True) -> None:
        """Begin to sample; a timeline that samples already goes on.

        Args:
            process: whether the load of this process is sampled, as the device `process`. It says nothing
                where other processes train.
        """
        if self._thread is None:
            self._with_process = process
            self._stop.clear()
            if not self._taken and not self._counts:
                self._began, self._clock = time.monotonic(), time.time()
            self._thread = threading.Thread(target=self._run, name="flodl-timeline", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End sampling; what was recorded stays. A timeline that has stopped already stays as it is."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            thread.join(timeout=5)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def event(self, kind: str, *, ago: float = 0.0, **detail: float | str) -> None:
        """Keep something that happened now.

        Args:
            kind: a word for it.
            ago: seconds since it happened.
            **detail: numbers and texts about it.
        """
        event = TimelineEvent(at=max(0.0, self._now() - ago), kind=kind, detail=detail)
        with self._lock:
            # One that is told late goes to its place.
            later: list[TimelineEvent] = []
            while self._events and self._events[-1].at > event.at:
                later.append(self._events.pop())
            self._events.extend((event, *reversed(later)))
            self._counts[kind] += 1
            if self._readers:
                self._fresh[1].append(event)
            if kind == "sync_end":
                self._syncs += 1
                self._sync_seconds += float(detail.get("seconds", 0.0))

    def subscribe(self) -> SimpleQueue[TimelineBatch]:
        """Return a queue that gets what is new after every `broadcast_ms`, and at the end.

        A reader that leaves 1,000 batches unread gets no more of them.
        """
        queue: SimpleQueue[TimelineBatch] = SimpleQueue()
        with self._lock:
            self._readers.append(queue)
        return queue

    # ---- reading -----------------------------------------------------------------------------

    def samples(self) -> tuple[TimelineSample, ...]:
        """Return the samples so far, in order."""
        with self._lock:
            return tuple(self._samples)

    def events(self) -> tuple[TimelineEvent, ...]:
        """Return the events so far, in order; the newest `most` of them."""
        with self._lock:
            return tuple(self._events)

    def sample_count(self) -> int:
        """Return the number of looks at the machine so far."""
        return self._taken

    def drain(self) -> TimelineBatch:
        """Return the samples and events so far, and forget them; counts stay."""
        with self._lock:
            found = TimelineBatch(samples=tuple(self._samples), events=tuple(self._events))
            self._samples.clear()
            self._events.clear()
        return found

    def devices(self) -> tuple[str, ...]:
        """Return what has a known load: GPUs as `cuda:0`, `process` and `cpu`; see `idle_gaps`."""
        return tuple(
            dict.fromkeys(name for each in self.samples() for name in load_names(each.values))
        )

    def idle_gaps(
        self, device: str = "process", threshold_pct: float = 5, min_ms: float = 500
    ) -> list[IdleGap]:
        """Return the times in which a device did almost nothing, and the events in them.

        Args:
            device: a GPU such as `cuda:0`; `process` for this process, as part of one core; or `cpu` for
                the mean of all cores, other programs included.
            threshold_pct: percentage below which a device is idle.
            min_ms: milliseconds that a gap lasts at least. A gap ends with the first busy sample, or with
                the last one.

        Raises:
            UnknownNameError: no sample knows the load of the device.
        """
        samples, known = self.samples(), self.devices()
        if device not in known:
            there = ", ".join(f"`{each}`" for each in known) or "none: the timeline has no sample"
            raise UnknownNameError(f"the load of `{device}` is not known (there are: {there})")
        step = self._poll * self._looks
        return [
            *find_gaps(
                samples, self.events(), device,
                below=threshold_pct, shortest=min_ms / 1000, around=2 * step,
            )
        ]  # fmt: skip

    def summary(self) -> TimelineSummary:
        """Return the timeline in numbers."""
        samples = self.samples()
        loads: dict[str, list[float]] = {}
        for each in samples:
            for device, name in load_names(each.values).items():
                loads.setdefault(device, []).append(each.values[name])
        with self._lock:
            counts = dict(sorted(self._counts.items()))
            mean = self._sync_seconds / self._syncs if self._syncs else 0.0
        return TimelineSummary(
            seconds=samples[-1].at - samples[0].at if samples else 0.0,
            samples=self._taken,
            events=counts,
            busy={device: sum(each) / len(each) for device, each in loads.items()},
            idle={
                device: sum(value < _IDLE for value in each) / len(each)
                for device, each in loads.items()
            },
            mean_sync=mean,
        )

    # ---- files -------------------------------------------------------------------------------

    def save_json(self, path: str | Path) -> None:
        """Write everything as JSON: columns of samples, events, gaps of each device."""
        samples = self.samples()
        names = dict.fromkeys(name for each in samples for name in each.values)
        data: dict[str, Any] = {
            "format": _FORMAT,
            "began": self._clock,
            "poll_ms": self._poll * 1000,
            "looks_per_sample": self._looks,
            "samples": {
                "at": [each.at for each in samples],
                **{name: [each.values.get(name) for each in samples] for name in names},
            },
            "events": [
                {"at": each.at, "kind": each.kind, **each.detail} for each in self.events()
            ],
            "idle_gaps": [
                {
                    "device": each.device,
                    "start": each.start,
                    "end": each.end,
                    "causes": each.causes,
                }
                for device in self.devices()
                for each in self.idle_gaps(device)
            ],
        }
        write_text(path, json.dumps(data) + "\n")

    def save_csv(self, path: str | Path) -> None:
        """Write a row for each sample; the last column has the kinds of the events since the row before."""
        samples, events = self.samples(), deque(self.events())
        names = dict.fromkeys(name for each in samples for name in each.values)
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["at_s", *names, "events"])
        for each in samples:
            kinds = []
            while events and events[0].at <= each.at:
                kinds.append(events.popleft().kind)
            numbers = [each.values.get(name) for name in names]
            table.writerow(
                [
                    f"{each.at:.3f}",
                    *("" if value is None else f"{value:.6g}" for value in numbers),
                    ";".join(kinds),
                ]
            )
        write_text(path, text.getvalue())

    def save_html(self, path: str | Path, title: str = "Timeline") -> None:
        """Write a page without scripts, with a lane for each device, the epochs and the other events."""
        gaps = [gap for device in self.devices() for gap in self.idle_gaps(device)]
        page = timeline_page(title, self.samples(), self.events(), gaps, str(self.summary()))
        write_text(path, page)

    # ---- the thread --------------------------------------------------------------------------

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _run(self) -> None:
        self._probe.sample()  # the load of a processor is that between two looks of one thread
        told = now = time.monotonic()
        used = _work_of_others()
        while not self._stop.wait(self._poll):
            values = self._probe.sample()
            before, now = now, time.monotonic()
            if self._with_process:
                earlier, used = used, _work_of_others()
                values["process"] = min(100.0, 100.0 * (used - earlier) / (now - before))
            self._take(TimelineSample(at=now - self._began, values=values))
            if time.monotonic() - told >= self._broadcast:
                self._tell()
                told = time.monotonic()
        self._tell()

    def _take(self, sample: TimelineSample) -> None:
        throttled = bool(sample.values.get("throttled"))
        if throttled and not self._throttled:
            self.event("throttle")
        self._throttled = throttled
        with self._lock:
            self._taken += 1
            if self._readers:
                self._fresh[0].append(sample)
            self._open.append(sample)
            if len(self._open) < self._looks:
                return
            self._samples.append(merged(self._open))
            self._open.clear()
            if len(self._samples) == self._most:
                pairs = range(0, len(self._samples), 2)
                self._samples = [merged(self._samples[each : each + 2]) for each in pairs]
                self._looks *= 2

    def _tell(self) -> None:
        with self._lock:
            samples, events = self._fresh
            self._fresh = ([], [])
            batch = TimelineBatch(samples=tuple(samples), events=tuple(events))
            for each in self._readers:
                if each.qsize() < _UNREAD:
                    each.put(batch)


def _work_of_others() -> float:
    """Return the processor seconds of all threads of this process but this one, which samples."""
    return time.process_time() - time.thread_time()
