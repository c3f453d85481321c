"""The `.fdl` files of the Rust framework, versions 1 and 2: read them, and write them for it.

```
"FDLC" | u32 version | 32 bytes structural hash | u32 count | entries
entry: u32 length, name | u32 dimensions, i64 each | u8 dtype | u64 length, bytes
```
All numbers are little-endian.  Every length is checked against what is left before anything is allocated.
"""

from __future__ import annotations

import math
import struct
from io import BytesIO
from typing import TYPE_CHECKING, Final, final

import torch

from flodl.checkpoint.tensors import as_bytes, from_bytes, on_host
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

MAGIC: Final = b"FDLC"
NEWEST: Final = 2
_HEAD: Final = struct.Struct("<4sI32sI")
_SMALLEST_ENTRY: Final = 4 + 4 + 1 + 8
_CODES: Final = {1: "F16", 2: "BF16", 3: "F32", 4: "F64", 5: "I32", 6: "I64"}
_TAGS: Final = {
    torch.float16: 1, torch.bfloat16: 2, torch.float32: 3, torch.float64: 4, torch.int32: 5,
    torch.int64: 6,
}  # fmt: skip
_ITEM: Final = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8, "I32": 4, "I64": 8}
_MOST_DIMENSIONS: Final = 64


@final
class _Cursor:
    """A place in some bytes that cannot move past their end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._place = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._place

    def take(self, count: int, what: str) -> memoryview:
        if count > self.left:
            raise CheckpointError(
                f"the file ends inside {what}: {count} bytes announced, {self.left} are left"
            )
        self._place += count
        return self._data[self._place - count : self._place]

    def number(self, form: str, what: str) -> int:
        value: int = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}"), what))[0]
        return value


def decode_legacy(data: memoryview) -> tuple[int, dict[str, torch.Tensor], dict[str, str]]:
    """Return version, tensors by dotted name, and metadata.

    Raises:
        CheckpointError: the file is damaged or newer.
    """
    cursor = _Cursor(data)
    _, version, digest, count = _HEAD.unpack(cursor.take(_HEAD.size, "the header"))
    if not 1 <= version <= NEWEST:
        raise CheckpointError(f"FDLC version {version} is unknown; 1 and 2 can be read")
    if count * _SMALLEST_ENTRY > cursor.left:
        raise CheckpointError(f"the header announces {count} tensors, which the file cannot hold")
    tensors: dict[str, torch.Tensor] = {}
    for index in range(count):
        name, tensor = _entry(cursor, index)
        if name in tensors:
            raise CheckpointError(f"the name {name!r} occurs twice")
        tensors[name] = tensor
    if cursor.left:
        raise CheckpointError(f"{cursor.left} bytes follow the last tensor")
    metadata = {"fdlc.structural_hash": bytes(digest).hex()} if any(digest) else {}
    return version, tensors, metadata


def _entry(cursor: _Cursor, index: int) -> tuple[str, torch.Tensor]:
    what = f"tensor {index}"
    raw = bytes(cursor.take(cursor.number("I", what), what))
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"the name of {what} is not UTF-8") from error
    what = f"tensor {name!r}"
    dimensions = cursor.number("I", what)
    if dimensions > _MOST_DIMENSIONS:
        raise CheckpointError(f"{what} announces {dimensions} dimensions")
    shape = [cursor.number("q", what) for _ in range(dimensions)]
    tag = cursor.number("B", what)
    size = cursor.number("Q", what)
    if tag not in _CODES:
        raise CheckpointError(f"{what} has the unknown dtype tag {tag}")
    code = _CODES[tag]
    expected = _ITEM[code]
    for length in shape:
        expected *= length
    if any(length < 0 for length in shape) or expected != size or not _countable(shape):
        raise CheckpointError(f"{what}: shape {shape} of {code} does not take {size} bytes")
    # A copy: entries are not aligned.  The size was checked against the rest of the file.
    values = from_bytes(bytearray(cursor.take(size, what)), code, shape)
    return name.replace("/", "."), values


def _countable(shape: Sequence[int]) -> bool:
    """Return True if torch can count the strides of a shape, which it does even without values."""
    return math.prod(max(length, 1) for length in shape) < 2**63


def write_legacy(
    stream: BinaryIO, tensors: Mapping[str, torch.Tensor], version: int = NEWEST
) -> None:
    """Write tensors for the Rust framework, without a structural hash.

    Args:
        stream: where to.
        tensors: values by name; the last dot of a name becomes a slash, as there.
        version: 1 or 2.

    Raises:
        CheckpointError: a dtype that the format does not have.
    """
    stream.write(_HEAD.pack(MAGIC, version, bytes(32), len(tensors)))
    for name, each in tensors.items():
        if each.dtype not in _TAGS:
            raise CheckpointError(f"{name!r} has dtype {each.dtype}, which the FDLC format lacks")
        encoded = "/".join(name.rsplit(".", 1)).encode()
        stream.write(struct.pack("<I", len(encoded)) + encoded)
        stream.write(struct.pack(f"<I{each.ndim}q", each.ndim, *each.shape))
        held = on_host(each)
        data = as_bytes(held)
        stream.write(struct.pack("<BQ", _TAGS[each.dtype], len(data)))
        stream.write(data)


def legacy_bytes(tensors: Mapping[str, torch.Tensor], version: int = NEWEST) -> bytes:
    """Return the bytes that `write_legacy` writes."""
    stream = BytesIO()
    write_legacy(stream, tensors, version)
    return stream.getvalue()
