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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Group = Literal["metrics", "resources"]

MAGIC: Final = b"FDM\x01"
_HEAD: Final = struct.Struct("<4sBxxxII")  # magic, kind, bytes of payload, checksum
_PREFIX: Final = struct.Struct("<II")  # bytes of names, rows
_ROWS: Final = 1
_NOTE: Final = 2
# A length beyond this is damage, not a frame.
LARGEST_PAYLOAD: Final = 1 << 28


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
        kind: what it is.
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


def decode(data: bytes | memoryview) -> Iterator[tuple[Frame | None, int]]:
    """Yield every sound frame and where it ends.

    `None` stands for bytes that are no frame and are followed by one.  Bytes at the end that may
    become a frame when more is written are not reported: the last position yielded is before them.
    """
    view = memoryview(data)
    at = 0
    while at + _HEAD.size <= len(view):
        frame, end = _frame_at(view, at)
        if frame is not None:
            at = end
            yield frame, end
            continue
        following = _next_sound(view, at + 1)
        if following < 0:
            return
        at = following
        yield None, at


def _framed(kind: int, payload: bytes) -> bytes:
    return _HEAD.pack(MAGIC, kind, len(payload), _checksum(kind, payload)) + payload


def _checksum(kind: int, payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(bytes((kind,)) + len(payload).to_bytes(4, "little")))


def _frame_at(view: memoryview, at: int) -> tuple[Frame | None, int]:
    magic, kind, length, checksum = _HEAD.unpack_from(view, at)
    start = at + _HEAD.size
    end = start + length
    if magic != MAGIC or length > LARGEST_PAYLOAD or end > len(view):
        return None, at
    payload = view[start:end]
    if _checksum(kind, payload) != checksum:
        return None, at
    return _parsed(kind, payload), end


def _parsed(kind: int, payload: memoryview) -> Frame:
    if kind == _ROWS:
        named, rows = _PREFIX.unpack_from(payload)
        group, names = _names(bytes(payload[_PREFIX.size : _PREFIX.size + named]))
        at = _PREFIX.size + named
        columns = []
        for _ in range(len(names) + 2):
            columns.append(_numbers(payload[at : at + 8 * rows]))
            at += 8 * rows
        steps, times, *values = columns
        return Rows(group=group, names=names, steps=steps, times=times, columns=tuple(values))
    name, data = json.loads(bytes(payload))
    return Note(name, data)


@lru_cache(maxsize=256)
def _names(text: bytes) -> tuple[Group, tuple[str, ...]]:
    # The same in every frame of a run.
    group, *names = json.loads(text)
    return group, tuple(names)


def _next_sound(view: memoryview, at: int) -> int:
    """Return where the next sound frame begins, -1 if there is none yet."""
    data = bytes(view[at:])
    found = data.find(MAGIC)
    while found >= 0:
        if found + _HEAD.size <= len(data) and _frame_at(view, at + found)[0] is not None:
            return at + found
        found = data.find(MAGIC, found + 1)
    return -1


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
