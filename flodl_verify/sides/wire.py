"""Messages between the process that compares and the processes that run user code.

Example: the judge sends `{"ticket": "9f..", "op": "call", "limit_s": 20.0, ...}` and reads back
`{"ticket": "9f..", "ok": {"sections": {"output": [[-1, "", "torch.Tensor", "t", ...]]}}}`. The text
goes through a pipe; the bits of tensors lie in a file in memory, of which the text gives the places.

Only JSON and raw numbers cross over: nothing that is read here can run code. Each message is of a
limited size, echoes the ticket of its question, and is checked against its form before it is used.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import tempfile
import time
import weakref
from collections.abc import Mapping
from multiprocessing.connection import wait
from typing import Any, final

import torch

from flodl.pytree import Branch, Code, Known, Plain, SameAs, Unseen
from flodl_verify.values import raw
from flodl_verify.values.snapshot import Content, Part, Snapshot, TensorSnapshot

# Texts name and describe; numbers go through the store. JSON in memory is many times its text.
MAX_TEXT_BYTES = 32 << 20
MAX_DATA_BYTES = 16 << 30
_LENGTH = struct.Struct("!Q")
# Large enough for any kind of number to begin at.
_ALIGNMENT = 64
# Less is read, more is mapped.
_MAPPED_BYTES = 1 << 20
DTYPES = {str(item): item for item in vars(torch).values() if isinstance(item, torch.dtype)}

Fields = dict[str, Any]
Place = list[int]


@final
class MalformedMessageError(Exception):
    """A message that does not have its form."""


@final
class ClosedError(Exception):
    """The other side has ended."""


@final
class Pipe:
    """One end of a connection that carries JSON objects."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, fields: Mapping[str, Any]) -> None:
        """Send one object.

        Raises:
            ClosedError: the other side has ended.
        """
        text = _ENCODE(fields).encode()
        self.send_bytes(_LENGTH.pack(len(text)) + text)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are; a message before them says how many.

        Raises:
            ClosedError: the other side has ended.
        """
        left = memoryview(data)
        try:
            while left:
                left = left[_WRITE(self._descriptor, left) :]
        except OSError as problem:
            raise ClosedError from problem

    def receive(self, deadline: float | None = None) -> Fields:
        """Return the next object.

        Raises:
            ClosedError: the other side has ended.
            MalformedMessageError: the message is no object, or too large.
            TimeoutError: the message is not complete at a time of the monotonic clock.
        """
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        if size > MAX_TEXT_BYTES:
            raise MalformedMessageError(f"a message of {size} bytes")
        text = self._exactly(size, deadline)
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise MalformedMessageError("a message that is no JSON") from problem
        if not isinstance(fields, dict):
            raise MalformedMessageError("a message that is no object")
        return fields

    def _exactly(self, size: int, deadline: float | None) -> bytes:
        parts = []
        while size:
            if deadline is not None:
                left = max(deadline - time.monotonic(), 0.0)
                # `select.select` knows no descriptor above 1023.
                if not wait([self._descriptor], left):
                    raise TimeoutError
            try:
                part = _READ(self._descriptor, min(size, 1 << 20))
            except OSError as problem:
                raise ClosedError from problem
            if not part:
                raise ClosedError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


@final
class Store:
    """A file in memory that one side fills, and the other reads."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._size = 0
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def make(cls) -> Store:
        """Make a store; both sides have it when one of them is forked afterwards."""
        if "memfd_create" in vars(os):
            return cls(os.memfd_create("store"))
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def clear(self) -> None:
        """Empty the store, and give its memory back."""
        os.ftruncate(self.descriptor, 0)
        self._size = 0

    def add(self, data: bytes | memoryview) -> Place:
        """Append bytes; return where they begin and how many they are."""
        start = -(-self._size // _ALIGNMENT) * _ALIGNMENT
        left, offset = memoryview(data), start
        while left:
            written = _PWRITE(self.descriptor, left, offset)
            left, offset = left[written:], offset + written
        self._size = offset
        return [start, offset - start]

    def read(self) -> Stored:
        """Return the content from the other side."""
        size = os.fstat(self.descriptor).st_size
        if size > MAX_DATA_BYTES:
            raise MalformedMessageError(f"{size} bytes of data")
        if size < _MAPPED_BYTES:
            return Stored(bytearray(os.pread(self.descriptor, size, 0)))
        return Stored(mmap.mmap(self.descriptor, size, access=mmap.ACCESS_COPY))


@final
class Stored:
    """The bytes of a store at one time."""

    def __init__(self, data: bytearray | mmap.mmap) -> None:
        self._data = data

    def blob(self, place: object) -> bytes:
        """Return some of the bytes."""
        start, size = self._checked(place)
        return bytes(self._data[start : start + size])

    def whole(self) -> memoryview:
        """Return all bytes."""
        return memoryview(self._data)

    def tensor(self, place: object, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """Return some of the bytes as numbers."""
        start, size = self._checked(place)
        count = math.prod(shape)
        if count * dtype.itemsize != size:
            raise MalformedMessageError("a tensor of another size than its shape")
        if not count:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(self._data, dtype=dtype, count=count, offset=start)
        return flat.reshape(shape)

    def _checked(self, place: object) -> tuple[int, int]:
        if not isinstance(place, list) or len(place) != 2 or not all(map(_is_size, place)):
            raise MalformedMessageError("a place that is none")
        start, size = place
        if start + size > len(self._data):
            raise MalformedMessageError("a place outside of the data")
        return start, size


def add_tensor(store: Store, tensor: torch.Tensor) -> Place:
    """Put the numbers of a dense tensor into a store."""
    return store.add(raw.memory_of(tensor))


def encoded(snapshot: Snapshot, store: Store) -> list[list[Any]]:
    """Return a snapshot as lists and texts, with its numbers in a store."""
    rows = []
    for parent, key, kind, content in snapshot.parts:
        rows.append([parent, key, kind, *_encoded_content(content, store)])
    return rows


def _encoded_content(content: Content, store: Store) -> list[Any]:
    match content:
        case TensorSnapshot():
            place = None if raw.is_meta(content.data) else add_tensor(store, content.data)
            return [
                "t", str(raw.dtype(content.data)), list(raw.shape(content.data)), place,
                content.requires_grad, content.layout, list(content.strides), content.alias,
            ]  # fmt: skip
        case Plain():
            return ["p", content.text]
        case Code():
            return ["c", content.digest]
        case Branch():
            return ["b", content.text, content.immutable, content.module]
        case SameAs():
            return ["s", content.index, content.path]
        case Known():
            return ["k", content.name]
        case Unseen():
            return ["u", content.reason]


def decoded(rows: object, stored: Stored) -> Snapshot:
    """Return the snapshot that was encoded.

    Raises:
        MalformedMessageError: it is none.
    """
    parts: list[Part] = []
    for row in checked(rows, list):
        try:
            parent, key, kind, tag, *rest = checked(row, list)
            if not (isinstance(key, str) and isinstance(kind, str)):
                raise MalformedMessageError("a part without a name")
            if not -1 <= checked(parent, int) < len(parts) or (parent < 0) != (not parts):
                raise MalformedMessageError("a part above its parent")
            parts.append(Part(parent, key, kind, _decoded_content(tag, rest, stored, parts)))
        except (ValueError, TypeError, LookupError) as problem:
            raise MalformedMessageError("a part that is none") from problem
    if not parts:
        raise MalformedMessageError("a value without parts")
    return Snapshot(tuple(parts))


def _decoded_content(tag: object, rest: list[Any], stored: Stored, parts: list[Part]) -> Content:
    match tag:
        case "t":
            dtype, shape, place, gradient, layout, strides, alias = rest
            return TensorSnapshot(
                data=_decoded_tensor(DTYPES[dtype], shape, place, stored),
                requires_grad=checked(gradient, bool),
                layout=checked(layout, str),
                strides=tuple(checked(item, int) for item in strides),
                alias=checked(alias, str),
            )
        case "s":
            index, path = rest
            target = parts[index].content if checked(index, int) >= 0 else None
            if isinstance(target, SameAs):
                raise MalformedMessageError("a reference to a reference")
            return SameAs(index, checked(path, str))
        case "b":
            text, immutable, module = rest
            return Branch(checked(text, str), checked(immutable, bool), checked(module, bool))
        case _:
            (text,) = rest
            return _TEXTS[checked(tag, str)](checked(text, str))


def _decoded_tensor(
    dtype: torch.dtype, shape: object, place: object, stored: Stored
) -> torch.Tensor:
    sizes = tuple(checked(shape, list))
    if not all(map(_is_size, sizes)):
        raise MalformedMessageError("a shape that is none")
    if place is None:
        return torch.empty(sizes, dtype=dtype, device="meta")
    return stored.tensor(place, dtype, sizes)


def checked(value: object, kind: type) -> Any:
    """Return a value that must be of a type of JSON.

    Raises:
        MalformedMessageError: it is of another type.
    """
    if type(value) is not kind:
        raise MalformedMessageError(f"a {type(value).__name__} where a {kind.__name__} was due")
    return value


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


_TEXTS: dict[str, type[Plain | Code | Known | Unseen]] = {
    "p": Plain,
    "c": Code,
    "k": Known,
    "u": Unseen,
}
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_READ, _WRITE, _PWRITE = os.read, os.write, os.pwrite
