"""The reader of metrics of a run that is finished, still running, or was killed, in any process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from flodl.errors import UnknownNameError
from flodl.monitor.store.frames import LARGEST_PAYLOAD, MAGIC, Rows, decode
from flodl.monitor.store.rundata import RunData
from flodl.monitor.store.segments import segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flodl.monitor.store.frames import Frame
    from flodl.monitor.store.records import EpochRecord

METRICS_FOLDER: Final = "metrics"
_BLOCK: Final = 4 << 20
_OVERLAP: Final = len(MAGIC) - 1  # a frame may begin at the end of a block


@final
class Reader:
    """Follows the metrics of one run.

    Attributes:
        folder: the folder with the segments.
        run: the run, as far as read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = RunData(
            title=folder.parent.name if folder.name == METRICS_FOLDER else folder.name
        )
        self._read: dict[Path, int] = {}
        self._seen: dict[Path, int] = {}

    @property
    def damaged(self) -> int:
        """The number of skipped stretches of bytes that were no frames."""
        return self.run.damaged

    def poll(self) -> int:
        """Take in what was written since the last call; return the number of frames."""
        count = 0
        for frame in self.frames():
            self.run.apply(frame, tell=False)
            count += 1
        return count

    def frames(self) -> Iterator[Frame]:
        """Yield the frames written since the last call."""
        for path in segments(self.folder):
            try:
                size = path.stat().st_size
                # An end that is no frame yet is looked at again when it has grown, not at every poll.
                if size > self._read.get(path, 0) and size != self._seen.get(path):
                    self._seen[path] = size
                    yield from self._new_frames(path)
                    self.run.unread = sum(
                        seen - self._read.get(each, 0) for each, seen in self._seen.items()
                    )
            except OSError:
                continue  # removed or unreadable: earlier data stays

    def history(self) -> tuple[EpochRecord, ...]:
        """Return the epochs that were read."""
        return tuple(self.run.epochs)

    def _new_frames(self, path: Path) -> Iterator[Frame]:
        size = _BLOCK
        with path.open("rb") as file:
            while True:
                start = self._read.get(path, 0)
                file.seek(start)
                data = file.read(size)
                progress = 0
                for frame, end in decode(data):
                    if isinstance(frame, Rows):
                        self.run.point_index.note(path, start + progress, frame)
                    progress = end
                    self._read[path] = start + end
                    if frame is None:
                        self.run.damaged += 1
                    else:
                        yield frame
                if len(data) < size:
                    return
                if not progress and size > LARGEST_PAYLOAD:  # no frame is as long
                    self.run.damaged += 1
                    self._read[path] = start + len(data) - _OVERLAP
                # A frame larger than a block, or a long stretch of damage.
                size = _BLOCK if progress or size > LARGEST_PAYLOAD else 2 * size


def metrics_folder(path: str | Path) -> Path | None:
    """Return where the segments of a run are, `None` if there are none.

    Args:
        path: a run, or its metrics folder.
    """
    for folder in (Path(path) / METRICS_FOLDER, Path(path)):
        if segments(folder):
            return folder
    return None


def open_reader(path: str | Path) -> Reader:
    """Open the metrics of a run and read what there is.

    Args:
        path: a run, or its metrics folder.

    Raises:
        UnknownNameError: there are no metrics.
    """
    folder = metrics_folder(path)
    if folder is None:
        message = f"{path} holds no metrics: it is no run, or its monitor has written nothing yet"
        raise UnknownNameError(message)
    reader = Reader(folder)
    reader.poll()
    return reader
