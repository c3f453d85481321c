"""Index of single points of a long run in its files: memory holds summaries only."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from flodl.monitor.store.frames import Rows, decode
from flodl.monitor.store.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# One mark for so many bytes: ten thousand marks are more than half a gigabyte of points.
MARK_BYTES: Final = 1 << 16
# A stretch that needs more reading than this is shown as it is in memory.
MOST_BYTES: Final = 16 << 20


@final
@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file and the first step there."""

    offset: int
    step: float


@final
class PointIndex:
    """The places of steps, file by file in the order of writing."""

    def __init__(self) -> None:
        self._marks: dict[Path, list[Mark]] = {}

    def note(self, path: Path, offset: int, rows: Rows) -> None:
        """Remember that rows begin at a place; most rows are found from those before them."""
        if rows.group != "metrics" or not rows.steps:
            return
        marks = self._marks.setdefault(path, [])
        if not marks or offset - marks[-1].offset >= MARK_BYTES:
            marks.append(Mark(offset, rows.steps[0]))

    def read(self, name: str, start: float, stop: float) -> Series | None:
        """Return every point of a series between two steps, `None` if that is not at hand.

        Args:
            name: the series.
            start: the first step.
            stop: the last step.
        """
        found = Series()
        files = [*self._marks.items()]
        for number, (path, marks) in enumerate(files):
            # Records of a later process replace those here.
            ends = [later[0].step for _, later in files[number + 1 :]]
            limit = min([math.nextafter(stop, math.inf), *ends])
            try:
                for rows in _rows(path, marks, start, limit):
                    _take(found, rows, name, start, limit)
            except (OSError, _TooMuchError):
                return None
        return found if found.count else None


@final
class _TooMuchError(Exception):
    """The stretch is too long to be read for one picture."""


def _rows(path: Path, marks: list[Mark], start: float, limit: float) -> Iterator[Rows]:
    known = tuple(marks)
    steps = [mark.step for mark in known]
    first = max(bisect.bisect_left(steps, start) - 1, 0)
    last = bisect.bisect_left(steps, limit)
    if last == 0:
        return
    at = known[first].offset
    end = known[last].offset if last < len(known) else path.stat().st_size
    if end - at > MOST_BYTES:
        raise _TooMuchError
    with path.open("rb") as file:
        file.seek(at)
        data = file.read(end - at)
    for frame, _ in decode(data):
        if isinstance(frame, Rows) and frame.group == "metrics":
            yield frame


def _take(found: Series, rows: Rows, name: str, start: float, limit: float) -> None:
    if name not in rows.names:
        return
    column = rows.columns[rows.names.index(name)]
    if rows.steps[0] >= start and rows.steps[-1] < limit:
        found.extend(rows.steps, rows.times, column)
        return
    inside = [at for at, step in enumerate(rows.steps) if start <= step < limit]
    if inside:
        part = slice(inside[0], inside[-1] + 1)
        found.extend(rows.steps[part], rows.times[part], column[part])
