"""The worker thread of a monitor: stores values, raises alerts, informs listeners."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, final

from flodl.monitor.alerts import Alerts, alert
from flodl.monitor.events import EventHub
from flodl.monitor.recording import rows_to_frames
from flodl.monitor.store.frames import Note, Rows, encode
from flodl.monitor.store.rundata import RunData
from flodl.monitor.store.segments import SegmentWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flodl.monitor.alerts import AlertRules
    from flodl.monitor.recording import Recorder
    from flodl.monitor.sinks import Sink
    from flodl.monitor.store.frames import Frame
    from flodl.monitor.store.records import EpochRecord

# A killed process loses at most what it recorded within this time, and while the last values were written.
TICK_SECONDS: Final = 0.1
# While a page is open, recorded values are seen this soon.
WATCHED_TICK_SECONDS: Final = 0.025
# At thousands of steps per second, messages are no more frequent than this.
MESSAGE_SECONDS: Final = 0.05
SYNC_SECONDS: Final = 5.0


@final
class MonitorWorker:
    """Takes recorded values, at short intervals or on request, and passes them on.

    Attributes:
        hub: where it is shown.
        run: all of it, in memory.
        name: the name of the run in the hub.
    """

    def __init__(
        self,
        name: str,
        earlier: RunData | None,
        folder: Path | None,
        recorder: Recorder,
        rules: AlertRules,
        sinks: tuple[Sink, ...],
        say: Callable[[str], None],
    ) -> None:
        self.run = earlier or RunData(title=name)
        self.hub = EventHub()
        self.name = self.hub.add(name, self.run)
        self._recorder, self._say = recorder, say
        self._writer = SegmentWriter(folder) if folder is not None else None
        self._alerts = Alerts(rules)
        self._sinks = sinks
        self._failed: set[str] = set()
        self._frames: deque[Frame] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._problem = ""
        self._last_sync = time.monotonic()
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._loop, name="flodl-monitor", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def add(self, frame: Frame) -> None:
        """Put a frame aside; notes are passed on at once."""
        self._frames.append(frame)
        if isinstance(frame, Note):
            self._wake.set()

    def drain(self) -> None:
        """Hand on what there is and wait until that is done."""
        if os.getpid() != self._owner:
            return  # a forked child has no threads, and the files are its parent's
        with self._lock:
            frames: list[Frame] = [*rows_to_frames(self._recorder.take())]
            frames += [self._frames.popleft() for _ in range(len(self._frames))]
            frames += self._watch(frames)
            if frames:
                self._store(frames)
                self.hub.feed(self.name, frames)
                for sink in self._sinks:
                    sink.put(frames)
                    self._check(sink)

    def sync(self) -> None:
        """Bring the file to the disk every few seconds; called on a thread that may wait."""
        now = time.monotonic()
        if self._writer is not None and now - self._last_sync > SYNC_SECONDS:
            self._last_sync = now
            self._writer.sync()

    def last_epoch(self) -> EpochRecord | None:
        """Return the epoch that was logged last."""
        self.drain()
        return self.run.epochs[-1] if self.run.epochs else None

    def close(self) -> None:
        """Hand on what is left, and end."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self.drain()
        for sink in self._sinks:
            sink.close()
            self._check(sink)
        if self._writer is not None and os.getpid() == self._owner:
            self._writer.close()
            if self._writer.lost:
                self._say(f"  monitor: {self._writer.lost} records were lost: {self._problem}")

    def _loop(self) -> None:
        rested = 0.0
        while not self._stopping:
            tick = WATCHED_TICK_SECONDS if self.hub.audience else TICK_SECONDS
            # What was rested after the last write is part of the tick.
            self._wake.wait(max(tick - rested, WATCHED_TICK_SECONDS))
            self._wake.clear()
            began = time.monotonic()
            try:
                self.drain()
            except Exception as problem:  # the training must not notice a mistake of ours
                self._say(f"  monitor: {type(problem).__name__}: {problem}; recording goes on")
                time.sleep(1)
            rested = max(MESSAGE_SECONDS - (time.monotonic() - began), 0.0)
            if self._recorder.busy:
                time.sleep(rested)
            else:
                rested = 0.0

    def _watch(self, frames: list[Frame]) -> list[Frame]:
        """Return the notes about trouble in what is new."""
        now = time.monotonic()
        found: list[Frame] = []
        alive = False
        for frame in frames:
            if isinstance(frame, Rows):
                if frame.group == "metrics":
                    alive = True
                    found += self._alerts.rows(frame)
            elif frame.kind == "epoch":
                alive = True
                found += self._alerts.epoch(frame.data)
        found += self._alerts.sign_of_life(now) if alive else self._alerts.silence(now)
        return found

    def _check(self, sink: Sink) -> None:
        if sink.problem and sink.name not in self._failed:
            self._failed.add(sink.name)
            self._say(f"  monitor: {sink.name} takes nothing any more: {sink.problem}")

    def _store(self, frames: list[Frame]) -> None:
        writer = self._writer
        if writer is None:
            return
        for frame in frames:
            place = writer.place
            writer.append(encode(frame))
            if place is not None and isinstance(frame, Rows):
                self.run.point_index.note(*place, frame)
        if writer.problem and writer.problem != self._problem:
            self._say(f"  monitor: nothing can be stored now: {writer.problem}; training goes on")
            note = alert("storage", f"nothing can be stored now: {writer.problem}")
            self.hub.feed(self.name, [note])
        self._problem = writer.problem
