"""Records as lines of JSON, for `jq` and everything else that reads lines.

    {"kind":"metrics","step":100,"time":1764000000.1,"values":{"loss":0.37}}
    {"kind":"epoch","data":{"epoch":0,"duration":1.5,"metrics":{"valid_loss":1.0}, ...}}
    {"kind":"event","data":{"kind":"checkpoint","message":"...","time":1764000001.2}}

A row of a step is one line, and so is anything else that a monitor notes. JSON knows no NaN and no
infinity: such values are `null`. A picture is left out, except for its size.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from flodl.monitor.store.frames import Rows
from flodl.monitor.store.records import without_nan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flodl.monitor.store.frames import Frame

USUAL_BYTES: Final = 64 << 20
_LEAST_BYTES: Final = 4096


def record_lines(frame: Frame, run: str | None = None) -> Iterator[str]:
    """Yield the lines of a frame, without the end of line.

    Args:
        frame: the record or event.
        run: the name of the run, as the first key of each line; no such key if not given.

    Example:
        >>> from flodl.monitor.store.frames import Note
        >>> from flodl.monitor.store.record_log import record_lines
        >>> list(record_lines(Note("epoch", {"epoch": 0, "eta": float("inf")}), "first"))
        ['{"run":"first","kind":"epoch","data":{"epoch":0,"eta":null}}']
    """
    first = {} if run is None else {"run": run}
    if isinstance(frame, Rows):
        for at, step in enumerate(frame.steps):
            values = {n: c[at] for n, c in zip(frame.names, frame.columns, strict=True)}
            whole = int(step) if step.is_integer() else step
            row = {"kind": frame.group, "step": whole, "time": frame.times[at], "values": values}
            yield _line({**first, **row})
    elif frame.kind == "graph":
        yield _line({**first, "kind": "graph", "data": {"characters": len(frame.data["svg"])}})
    else:
        yield _line({**first, "kind": frame.kind, "data": dict(frame.data)})


def _line(record: dict[str, Any]) -> str:
    return json.dumps(without_nan(record), separators=(",", ":"), allow_nan=False)


@final
class RecordLog:
    """Writes every record of a monitor to a file as it comes, in bounded space.

    When the file has half of its bytes, it becomes `NAME.1`, in the place of an older one, and a new file
    begins: both together never have more than `max_bytes`, and hold the latest records.

    Attributes:
        name: its name in messages.
        problem: why it takes nothing any more, empty as long as it does.

    Example:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from flodl import Monitor
        >>> from flodl.monitor import RecordLog
        >>> file = Path(tempfile.mkdtemp()) / "records.jsonl"
        >>> with Monitor(1, quiet=True, resources=False, sinks=[RecordLog(file)]) as monitor:
        ...     monitor.record(0, {"loss": 0.5})
        >>> lines = map(json.loads, file.read_text().splitlines())
        >>> [line["values"] for line in lines if "values" in line]
        [{'loss': 0.5}]
    """

    def __init__(self, path: str | Path, *, max_bytes: int = USUAL_BYTES) -> None:
        """Write to a file, which is continued if it exists.

        Args:
            path: the file.
            max_bytes: the most bytes of the file and the one before it, at least 4096.

        Raises:
            ValueError: `max_bytes` is too small.
        """
        if max_bytes < _LEAST_BYTES:
            raise ValueError(f"max_bytes is {max_bytes}; it must be at least {_LEAST_BYTES}")
        self.name = "jsonl"
        self.problem = ""
        self._path = Path(path)
        self._most = max_bytes // 2
        self._file = -1
        self._size = 0

    def put(self, frames: Sequence[Frame]) -> None:
        """Write frames; the first failure ends the log, with whole lines in it."""
        if self.problem:
            return
        try:
            for frame in frames:
                for line in record_lines(frame):
                    self._append(line.encode() + b"\n", frame)
        except OSError as problem:
            self.problem = f"{problem.strerror or problem} ({self._path})"
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, data: bytes, frame: Frame) -> None:
        if len(data) > self._most:
            kind = frame.group if isinstance(frame, Rows) else frame.kind
            data = _line({"kind": kind, "left_out_bytes": len(data)}).encode() + b"\n"
        if self._file < 0:
            self._open()
        if self._size and self._size + len(data) > self._most:
            self.close()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._open()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(data)

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_APPEND | os.O_RDWR
        self._file = os.open(self._path, flags, 0o644)
        self._size = _whole_lines(self._path)
        # A killed process left half a line, at which a reader would stop.
        os.ftruncate(self._file, self._size)


def _whole_lines(path: Path) -> int:
    """Return how many bytes of a file are whole lines."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - (1 << 16))
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
