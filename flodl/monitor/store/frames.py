"""The frames of a metrics file: each has a length and a checksum, so damage is noticed and skipped."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, final

from flodl.monitor.store.note_checks import is_sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Group = Literal["metrics", "resources"]

MAGIC: Final = b"FDM\x01"
_HEAD: Final = struct.Struct("<4sBxxxII")  # magic, kind, bytes of payload, checksum
_PREFIX: Final = struct.Struct("<II")  # bytes of names, rows
_ROWS: Final = 1
_NOTE: Final = 2
# A length beyond this is damage, not a frame.
LARGEST_PAYLOAD: Final = 1 << 26
# Bytes that may be hashed in search of the next frame, for each byte that is searched: damage that looks
# like thousands of long frames would otherwise take quadratic time.
_SEARCH_EFFORT: Final = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Values of some series at some steps, column by column.

    Attributes:
        group: whose values they are.
        names: the series.
        steps: the step of each row.
        times: when each row was recorded, in seconds since 1970.
        columns: the values, one array per name.
    """

    group: Group
    names: tuple[str, ...]
    steps: array[float]
    times: array[float]
    columns: tuple[array[float], ...]


@final
@dataclass(frozen=True, slots=True)
class Note:
    """Anything else that happened: a start, an epoch, an alert, the end.

    Attributes:
        kind: the kind of frame.
        data: plain values.
    """

    kind: str
    data: Mapping[str, Any]


Frame = Rows | Note


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    match frame:
        case Rows():
            names = json.dumps([frame.group, *frame.names]).encode()
            head = _PREFIX.pack(len(names), len(frame.steps))
            columns = (frame.steps, frame.times, *frame.columns)
            payload = b"".join((head, names, *map(_little, columns)))
            return _framed(_ROWS, payload)
        case Note():
            payload = json.dumps([frame.kind, frame.data], separators=(",", ":")).encode()
            return _framed(_NOTE, payload)


def decode(data: bytes) -> Iterator[tuple[Frame | None, int]]:
    """Yield every sound frame and where it ends.

    `None` stands for bytes that are no frame and are followed by one.  Bytes at the end that may
    become a frame when more is written are not reported: the last position yielded is before them.
    Damage that takes too long to search is reported as one stretch up to the end.
    """
    search = _Search(data)
    at = 0
    while at + _HEAD.size <= len(data):
        frame, end = search.frame_at(at)
        if frame is not None:
            at = end
            yield frame, end
            continue
        at = search.next_sound(at + 1)
        if at < 0:
            return
        yield None, at


def _framed(kind: int, payload: bytes) -> bytes:
    return _HEAD.pack(MAGIC, kind, len(payload), _checksum(kind, payload)) + payload


def _checksum(kind: int, payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(bytes((kind,)) + len(payload).to_bytes(4, "little")))


@final
class _Search:
    """Finds frames in bytes, with effort that is bounded by their number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._view = memoryview(data)
        self._left = _SEARCH_EFFORT * len(data)

    def frame_at(self, at: int) -> tuple[Frame | None, int]:
        """Return the frame at a place and its end, or `None` and the place."""
        magic, kind, length, checksum = _HEAD.unpack_from(self._view, at)
        start = at + _HEAD.size
        end = start + length
        if magic != MAGIC or length > LARGEST_PAYLOAD or end > len(self._view):
            return None, at
        payload = self._view[start:end]
        if _checksum(kind, payload) != checksum:
            self._left -= length
            return None, at
        try:
            frame = _parsed(kind, payload)
        except (ValueError, TypeError, RecursionError, struct.error):
            frame = None  # sealed, but by a program that wrote something else
        self._left -= 0 if frame else length
        return (None, at) if frame is None else (frame, end)

    def next_sound(self, at: int) -> int:
        """Return where the next sound frame begins; -1 if there is none yet, the end if it is too far."""
        found = self._data.find(MAGIC, at)
        while found >= 0 and found + _HEAD.size <= len(self._data):
            if self._left < 0:
                return len(self._data)
            if self.frame_at(found)[0] is not None:
                return found
            found = self._data.find(MAGIC, found + 1)
        return -1


def _parsed(kind: int, payload: memoryview) -> Frame | None:
    if kind == _ROWS:
        named, rows = _PREFIX.unpack_from(payload)
        group, names = _names(bytes(payload[_PREFIX.size : _PREFIX.size + named]))
        if len(payload) != _PREFIX.size + named + 8 * rows * (len(names) + 2):
            return None
        at = _PREFIX.size + named
        columns = []
        for _ in range(len(names) + 2):
            columns.append(_numbers(payload[at : at + 8 * rows]))
            at += 8 * rows
        steps, times, *values = columns
        return Rows(group=group, names=names, steps=steps, times=times, columns=tuple(values))
    name, data = json.loads(bytes(payload))
    return Note(name, data) if is_sound(name, data) else None


@lru_cache(maxsize=256)
def _names(text: bytes) -> tuple[Group, tuple[str, ...]]:
    # The same in every frame of a run.
    group, *names = json.loads(text)
    if group not in ("metrics", "resources") or len(set(names)) < len(names):
        raise ValueError("no names of series")
    if not all(isinstance(name, str) for name in names):
        raise ValueError("no names of series")
    return group, tuple(names)


def _little(values: array[float]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _numbers(data: memoryview) -> array[float]:
    values = array("d")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
