"""The writer of a metrics file that only ever grows; a full disk is reported and stops nothing."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import deque
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SUFFIX: Final = ".fdm"
SEGMENT: Final = re.compile(r"segment-(\d{6,})\.fdm")
RETRY_SECONDS: Final = 5.0
# Bytes kept until the disk has room again.
BACKLOG_BYTES: Final = 8 << 20


def segments(folder: Path) -> tuple[Path, ...]:
    """Return the files of a metrics folder in the order in which they were begun."""
    try:
        # Regular files only: to open a pipe would wait for its writer.
        found = [
            each for each in folder.iterdir() if SEGMENT.fullmatch(each.name) and each.is_file()
        ]
    except OSError:
        return ()
    return tuple(sorted(found, key=lambda path: int(path.stem.partition("-")[2])))


@final
class SegmentWriter:
    """Appends frames to its own file in a metrics folder.

    Every process that writes a run has its own file, so that none appends to a frame that another one
    left half written when it was killed.

    Attributes:
        problem: why the last attempt to write failed, empty when it did not.
        lost: how many frames were given up because the disk stayed full.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.problem = ""
        self.lost = 0
        self._folder = folder
        self._clock = clock
        self._file = -1
        self._path: Path | None = None
        self._good = 0
        self._dirty = False
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._retry_at = 0.0
        self._owner = os.getpid()

    @property
    def place(self) -> tuple[Path, int] | None:
        """The offset of the next frame, `None` if that is not known yet."""
        return (self._path, self._good) if self._path is not None and not self._waiting else None

    def append(self, data: bytes) -> None:
        """Write one frame, or keep it until it can be written; never raises."""
        if os.getpid() != self._owner:
            return  # a forked child must not write into its parent's file
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if not self.problem or self._clock() >= self._retry_at:
            self._write_waiting()
        while self._waiting_bytes > BACKLOG_BYTES:
            self._waiting_bytes -= len(self._waiting.popleft())
            self.lost += 1

    def sync(self) -> None:
        """Ask the system to bring the file to the disk."""
        if self._dirty and os.getpid() == self._owner:
            self._dirty = False
            try:
                os.fsync(self._file)
            except OSError as problem:
                self._note(problem)

    def close(self) -> None:
        """Write what is left and close the file."""
        self._write_waiting()
        self.sync()
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = -1

    def _write_waiting(self) -> None:
        try:
            if self._file < 0:
                self._open()
            while self._waiting:
                _write_all(self._file, self._waiting[0])
                data = self._waiting.popleft()
                self._waiting_bytes -= len(data)
                self._good += len(data)
                self._dirty = True
            self.problem = ""
        except OSError as problem:
            self._note(problem)
            if self._file >= 0:
                # A partly written frame is taken back; the next attempt writes it from the start.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._good)

    def _note(self, problem: OSError) -> None:
        self.problem = f"{problem.strerror or problem} ({self._folder})"
        self._retry_at = self._clock() + RETRY_SECONDS

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY
        while self._file < 0:
            present = segments(self._folder)
            number = int(present[-1].stem.partition("-")[2]) + 1 if present else 1
            path = self._folder / f"segment-{number:06d}{SUFFIX}"
            with contextlib.suppress(FileExistsError):
                self._file = os.open(path, flags, 0o644)
                self._path, self._good = path, 0


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
