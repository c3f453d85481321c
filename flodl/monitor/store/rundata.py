"""One run in memory: the sum of its frames, and the messages of each frame to listeners."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, final

from flodl.monitor.store.frames import Note, Rows
from flodl.monitor.store.live_points import points_payload
from flodl.monitor.store.point_index import PointIndex
from flodl.monitor.store.records import EpochRecord, record_data, record_from, without_nan
from flodl.monitor.store.series import Series

if TYPE_CHECKING:
    from flodl.monitor.store.frames import Frame, Group

Status = Literal["running", "finished", "stopped", "lost", "damaged"]
Message = tuple[str, dict[str, Any]]

# Alerts and events beyond this many are forgotten by the page, not by the file.
MOST_NOTES: Final = 500
# Each series takes a kilobyte even when it is empty; more names than this are damage, not metrics.
MOST_SERIES: Final = 1 << 15


@final
@dataclass(slots=True, kw_only=True)
class RunData:
    """Everything that is known about a run, as far as it was read or recorded.

    Attributes:
        title: its name for people.
        total: the planned number of epochs.
        started: when the first process of the run began, in seconds since 1970.
        process: the process, as the last start described it.
        identity: label and hash of the model.
        metadata: the user's metadata of the run.
        picture: the drawing of the model as SVG.
        epochs: the epochs that were logged.
        series: the recorded values, by group and name.
        alerts: the alerts.
        events: the events of the training.
        point_index: where single points are, when memory holds summaries only.
        finished: whether it said that it was done.
        stopped: whether its process said that it ends before that.
        damaged: how many stretches of its files could not be read.
        unread: bytes at the end of its files that are no frame yet.
    """

    title: str = ""
    total: int = 0
    started: float = 0.0
    process: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    picture: str = ""
    pictures: int = 0
    epochs: list[EpochRecord] = field(default_factory=list)
    series: dict[Group, dict[str, Series]] = field(
        default_factory=lambda: {"metrics": {}, "resources": {}}
    )
    alerts: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    point_index: PointIndex = field(default_factory=PointIndex)
    finished: bool = False
    stopped: bool = False
    damaged: int = 0
    unread: int = 0
    _rewinding: set[str] = field(default_factory=set)
    _rewind_epochs: bool = False

    def apply(self, frame: Frame, *, tell: bool = True) -> list[Message]:
        """Take in a frame; return the messages for listeners.

        Args:
            frame: the record or event.
            tell: whether there are listeners; without them, points make no messages.
        """
        return self._rows(frame, tell=tell) if isinstance(frame, Rows) else self._note(frame)

    def _note(self, frame: Note) -> list[Message]:
        match frame.kind:
            case "start":
                return self._start(frame)
            case "epoch":
                return self._epoch(record_from(frame.data))
            case "alert" | "event":
                kept = self.alerts if frame.kind == "alert" else self.events
                kept.append(dict(frame.data))
                del kept[:-MOST_NOTES]
                return [(frame.kind, dict(frame.data))]
            case "identity":
                self.identity = {**self.identity, **frame.data}
            case "metadata":
                self.metadata = {**self.metadata, **frame.data}
            case "graph":
                self.picture = frame.data["svg"]
                self.pictures += 1
            case "finish":
                self.finished = True
                return [("finish", {"time": frame.data.get("time")})]
            case "stop":
                self.stopped = True
                return [("status", {"status": self.status()})]
            case _:
                return []  # written by a later version
        return [("about", self.about())]

    def status(self) -> Status:
        """Return whether the run continues, is done, was stopped, is gone without notice, or unreadable."""
        if self.finished:
            return "finished"
        if self.stopped:
            return "stopped"
        if (self.damaged or self.unread) and not self.process:
            return "damaged"
        if self.process.get("host") != socket.gethostname():
            return "running"
        return "running" if _alive(int(self.process.get("pid", 0))) else "lost"

    def about(self) -> dict[str, Any]:
        """Return the facts that a page shows above the charts."""
        return {
            "title": self.title or self.identity.get("label", ""),
            "total": self.total,
            "started": self.started,
            "identity": self.identity,
            "metadata": without_nan(self.metadata),
            "hardware": self.process.get("hardware", ""),
            "accepts": self.process.get("accepts", []),
            "picture": self.pictures,
            "damaged": self.damaged,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return everything but the values of the series, which are requested in pieces."""
        return {
            **self.about(),
            "status": self.status(),
            "epochs": epoch_columns(self.epochs),
            "series": {
                group: {name: each.count for name, each in members.items()}
                for group, members in self.series.items()
            },
            "alerts": without_nan(self.alerts),
            "events": without_nan(self.events),
        }

    def _start(self, note: Note) -> list[Message]:
        again = bool(self.process)
        self.process = dict(note.data)
        self.title = note.data.get("title") or self.title
        self.total = int(note.data.get("total") or self.total)
        self.started = self.started or float(note.data.get("time", time.time()))
        self.finished = self.stopped = False
        if again:
            # The next records replace those of an earlier process after its last checkpoint.
            self._rewinding = set(self.series["metrics"])
            self._rewind_epochs = True
        return [("about", self.about()), ("resume" if again else "start", {})]

    def _rows(self, rows: Rows, *, tell: bool) -> list[Message]:
        members = self.series[rows.group]
        if not rows.steps:
            return []
        rewound = False
        before = []
        for name, column in zip(rows.names, rows.columns, strict=True):
            each = members.get(name)
            if each is None:
                if len(members) >= MOST_SERIES:
                    self.damaged += 1
                    before.append(0)
                    continue
                each = members[name] = Series()
            if name in self._rewinding:
                self._rewinding.discard(name)
                rewound |= bool(rows.steps and each.truncate(rows.steps[0]))
            before.append(each.count)
            each.extend(rows.steps, rows.times, column)
        if rewound:
            return [("reset", {})]
        return [("points", points_payload(rows, before))] if tell else []

    def _epoch(self, record: EpochRecord) -> list[Message]:
        reset = False
        if self._rewind_epochs:
            self._rewind_epochs = False
            kept = [each for each in self.epochs if each.epoch < record.epoch]
            reset = len(kept) < len(self.epochs)
            self.epochs = kept
        self.epochs.append(record)
        if reset:
            return [("reset", {})]
        data = {"index": len(self.epochs) - 1, **without_nan(record_data(record))}
        return [("epoch", data)]


def epoch_columns(epochs: list[EpochRecord]) -> dict[str, Any]:
    """Return epochs column by column: a tenth of the size, and every metric has its own place."""
    columns: dict[str, Any] = {
        "epoch": [each.epoch for each in epochs],
        "duration": [round(each.duration, 4) for each in epochs],
        "time": [round(each.time, 3) for each in epochs],
        "step": [each.step for each in epochs],
        "eta": [None if each.eta is None else round(each.eta, 2) for each in epochs],
    }
    for part in ("metrics", "resources"):
        tables = [each.metrics if part == "metrics" else each.resources for each in epochs]
        names = dict.fromkeys(name for table in tables for name in table)
        columns[part] = {name: without_nan([t.get(name) for t in tables]) for name in names}
    return columns


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
