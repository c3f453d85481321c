"""The bytes of a `.fdl` file: a valid safetensors file whose header seals itself and all data.

```
u64 length | JSON header, padded with spaces to a multiple of 4096 | tensor bytes, without gaps
```
The metadata hold `fdl.checksums` (xxh3-64 of every tensor's bytes) and `fdl.seal`, the xxh3-64
of everything before the data, computed with sixteen zeros in its own place.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, final

from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType
    from typing import TypeAlias

    Buffer: TypeAlias = bytes | bytearray | memoryview

VERSION: Final = 3
PREFIX: Final = "fdl."
ALIGNMENT: Final = 4096
MAX_HEADER: Final = 100_000_000
MOST_DIMENSIONS: Final = 64  # as torch; a product of thousands of factors takes quadratic time
_SEAL: Final = "fdl.seal"
NO_SUM: Final = "0" * 16  # in the place of a checksum that is not known yet
_METADATA: Final = "__metadata__"
_WORTH_THREADS: Final = 32 << 20

ITEM_SIZES: Final[dict[str, int]] = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One stored tensor; `start` and `end` count bytes from the beginning of the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a file: entries in the order of their bytes, and texts by key."""

    entries: tuple[Entry, ...]
    metadata: Mapping[str, str]
    data_start: int

    @property
    def sealed(self) -> bool:
        """Whether the file carries checksums of ours."""
        return _SEAL in self.metadata


@cache
def xxhash() -> ModuleType:
    """Return the package that computes checksums; all but checkpoints works without it.

    Raises:
        CheckpointError: it is not installed.
    """
    try:
        import xxhash as package
    except ImportError as problem:
        raise CheckpointError(
            f"checkpoints need the package xxhash, which {sys.executable} does not have; "
            "`python -m pip install xxhash` there"
        ) from problem
    return package


def checksum(data: Buffer) -> str:
    """Return the xxh3-64 of some bytes as 16 hexadecimal digits."""
    return str(xxhash().xxh3_64_hexdigest(data))


def checksums(buffers: Sequence[Buffer]) -> list[str]:
    """Return the checksum of each of many buffers, on several cores where that pays."""
    if sum(len(each) for each in buffers) < _WORTH_THREADS:
        return [checksum(each) for each in buffers]
    # xxhash lets go of the interpreter lock; memory, not the core, is the limit beyond a few threads.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(checksum, buffers))


def encode_header(entries: Iterable[Entry], metadata: Mapping[str, str]) -> bytes:
    """Return everything before the data, sealed."""
    document: dict[str, Any] = {_METADATA: {**metadata, _SEAL: NO_SUM}}
    for each in entries:
        document[each.name] = {
            "dtype": each.dtype,
            "shape": list(each.shape),
            "data_offsets": [each.start, each.end],
        }
    text = json.dumps(document, separators=(",", ":")).encode()
    length = -(-(8 + len(text)) // ALIGNMENT) * ALIGNMENT - 8
    if length > MAX_HEADER:
        raise CheckpointError(
            f"the header would take {length} bytes; at most {MAX_HEADER} are allowed"
        )
    unsealed = struct.pack("<Q", length) + text.ljust(length)
    return unsealed.replace(_seal_text(NO_SUM), _seal_text(checksum(unsealed)))


def _seal_text(seal: str) -> bytes:
    # Quotes inside JSON strings are escaped: these bytes occur only at the key itself.
    return f'"{_SEAL}":"{seal}"'.encode()


def header_length(first: Buffer, file_size: int) -> int:
    """Return the number of header bytes after the first eight, checked against the size of the file."""
    if len(first) < 8:
        raise CheckpointError(f"the file has {file_size} bytes; not even the header length fits")
    length: int = struct.unpack("<Q", first[:8])[0]
    if length > min(MAX_HEADER, file_size - 8):
        raise CheckpointError(
            f"the header claims {length} bytes of a file of {file_size}: it is cut off or no checkpoint"
        )
    return length


def decode_header(raw: bytes, file_size: int, *, must_be_sealed: bool) -> Header:
    """Return the header of a file, after every check that needs no data.

    Args:
        raw: the length and the header.
        file_size: the size of the whole file.
        must_be_sealed: whether a file without our seal is an error.

    Raises:
        CheckpointError: the header is damaged or not one.
    """
    document = _parse(raw[8:])
    metadata = document.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError("the header's __metadata__ is not a table of texts")
    if must_be_sealed or any(key.startswith(PREFIX) for key in metadata):
        _check_seal(raw, metadata)
    entries = sorted(
        (_entry(name, each) for name, each in document.items()), key=lambda e: (e.start, e.end)
    )
    _check_coverage(entries, file_size - len(raw))
    return Header(entries=tuple(entries), metadata=metadata, data_start=len(raw))


def _parse(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the header is not readable: {error}") from error
    if not isinstance(document, dict):
        raise CheckpointError("the header is not a table of tensors")
    return document


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check_seal(raw: bytes, metadata: Mapping[str, str]) -> None:
    seal = metadata.get(_SEAL)
    if seal is None or raw.count(_seal_text(seal)) != 1:
        raise CheckpointError(
            "the header carries no seal: it is damaged, or not a flodl checkpoint"
        )
    if checksum(raw.replace(_seal_text(seal), _seal_text(NO_SUM))) != seal:
        raise CheckpointError("the header is damaged: its seal does not match")


def _entry(name: str, data: Any) -> Entry:
    try:
        shape, (start, end), dtype = data["shape"], data["data_offsets"], data["dtype"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the header's entry {name!r} lacks a dtype, shape or place"
        ) from error
    if isinstance(shape, list) and len(shape) > MOST_DIMENSIONS:
        raise CheckpointError(f"tensor {name!r} has {len(shape)} dimensions, at most 64 are known")
    numbers = [*shape, start, end] if isinstance(shape, list) else [None]
    if not all(type(each) is int and 0 <= each < 2**63 for each in numbers):
        raise CheckpointError(
            f"the header's entry {name!r} has a size that is not a natural number"
        )
    if not isinstance(dtype, str) or dtype not in ITEM_SIZES:
        raise CheckpointError(f"tensor {name!r} has dtype {dtype!r}, which is not supported")
    if math.prod(shape) * ITEM_SIZES[dtype] != end - start:
        raise CheckpointError(
            f"tensor {name!r}: shape {shape} of {dtype} does not fill bytes {start}-{end}"
        )
    if math.prod(each or 1 for each in shape) >= 2**63:  # torch counts strides even without values
        raise CheckpointError(f"tensor {name!r}: shape {shape} is larger than torch can count")
    return Entry(name=name, dtype=dtype, shape=tuple(shape), start=start, end=end)


def _check_coverage(entries: list[Entry], data_size: int) -> None:
    place = 0
    for each in entries:
        if each.start != place:
            what = "overlaps the one before" if each.start < place else "leaves a gap before it"
            raise CheckpointError(
                f"tensor {each.name!r} {what} (byte {each.start}, expected {place})"
            )
        place = each.end
    if place != data_size:
        raise CheckpointError(
            f"the tensors take {place} bytes, the file has {data_size} after its header: "
            f"{'it is cut off' if place > data_size else 'something was appended'}"
        )
