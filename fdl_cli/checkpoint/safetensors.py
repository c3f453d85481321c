"""The safetensors layout with our seal: u64 length, JSON header, data without gaps."""

import json
import math
import struct
from pathlib import Path
from typing import Any, Final

from fdl_cli.checkpoint.model import MOST_DIMENSIONS, CheckpointFile, StoredTensor, damaged

NEWEST: Final = 3
MOST_HEADER: Final = 100_000_000
_SEAL: Final = "fdl.seal"
_ITEM_SIZES: Final = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip


def read_safetensors(path: Path, data: memoryview) -> CheckpointFile:
    """Read and check the header.

    Raises:
        OperationFailedError: the file is damaged or no checkpoint.
    """
    if len(data) < 8:
        raise damaged(path, f"it has {len(data)} bytes; not even the header length fits")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(MOST_HEADER, len(data) - 8):
        raise damaged(
            path, f"the header claims {length} of {len(data)} bytes: cut off, or no checkpoint"
        )
    raw = bytes(data[: 8 + length])
    document = _document(path, raw[8:])
    metadata = document.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise damaged(path, "the header's __metadata__ is not a table of texts")
    ours = path.name.endswith((".fdl", ".fdl.gz")) or any(
        key.startswith("fdl.") for key in metadata
    )
    if ours:
        _check_seal(path, raw, metadata.get(_SEAL))
    tensors = sorted(
        (_tensor(path, name, each, len(raw)) for name, each in document.items()),
        key=lambda each: (each.start, each.end),
    )
    _check_coverage(path, tensors, len(raw), len(data))
    return CheckpointFile(
        path=path,
        data=data,
        version=_version(path, metadata.get("fdl.version", "0")),
        sealed=ours,
        metadata=metadata,
        tensors=tuple(tensors),
    )


def _document(path: Path, text: bytes) -> dict[str, Any]:
    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name occurs twice")
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=no_duplicates)
    except (ValueError, RecursionError) as problem:
        raise damaged(path, f"the header is not readable: {problem}") from problem
    if not isinstance(document, dict):
        raise damaged(path, "the header is not a table of tensors")
    return document


def announced_size(path: Path, data: bytes | bytearray) -> int | None:
    """Return the size of a whole file from its beginning; None before its header is complete.

    Raises:
        OperationFailedError: the header is damaged or too long.
    """
    if len(data) < 8:
        return None
    (length,) = struct.unpack("<Q", data[:8])
    if length > MOST_HEADER:
        raise damaged(path, f"the header claims {length} bytes: it is no checkpoint")
    if len(data) < 8 + length:
        return None
    document = _document(path, bytes(data[8 : 8 + length]))
    document.pop("__metadata__", None)
    ends = [_tensor(path, name, each, 8 + length).end for name, each in document.items()]
    return max(ends, default=8 + length)


def _check_seal(path: Path, raw: bytes, seal: str | None) -> None:
    from xxhash import xxh3_64_hexdigest

    written = f'"{_SEAL}":"{seal}"'.encode()
    if seal is None or raw.count(written) != 1:
        raise damaged(path, "the header carries no seal: damaged, or not a flodl checkpoint")
    blank = f'"{_SEAL}":"{"0" * 16}"'.encode()
    if xxh3_64_hexdigest(raw.replace(written, blank)) != seal:
        raise damaged(path, "the header is damaged: its seal does not match")


def _tensor(path: Path, name: str, data: Any, offset: int) -> StoredTensor:
    match data:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(start), int(end)]}:
            sizes_are_sound = all(
                type(each) is int and 0 <= each < 2**63 for each in [*shape, start, end]
            )
        case _:
            raise damaged(path, f"the header's entry {name!r} lacks a dtype, shape or place")
    if len(shape) > MOST_DIMENSIONS:
        raise damaged(path, f"tensor {name!r} has {len(shape)} dimensions")
    if dtype not in _ITEM_SIZES:
        raise damaged(path, f"tensor {name!r} has the unknown dtype {dtype!r}")
    if not sizes_are_sound or math.prod(shape) * _ITEM_SIZES[dtype] != end - start:
        raise damaged(path, f"tensor {name!r}: shape {shape} of {dtype} does not fill its bytes")
    return StoredTensor(
        name=name, dtype=dtype, shape=tuple(shape), start=start + offset, end=end + offset
    )


def _check_coverage(path: Path, tensors: list[StoredTensor], place: int, size: int) -> None:
    for each in tensors:
        if each.start != place:
            raise damaged(path, f"tensor {each.name!r} does not follow the one before it")
        place = each.end
    if place != size:
        raise damaged(path, f"the tensors end at byte {place}, the file at {size}")


def _version(path: Path, text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) > NEWEST:
        raise damaged(path, f"format version {text!r} is not known; a newer fdl may read it")
    return int(text)


def table(file: CheckpointFile, key: str) -> dict[str, str]:
    """Return a table of texts that is stored as JSON in the metadata; empty if there is none.

    Raises:
        OperationFailedError: the text is not such a table.
    """
    try:
        found = json.loads(file.metadata.get(key, "{}"))
    except (ValueError, RecursionError) as problem:
        raise damaged(file.path, f"{key} is not readable") from problem
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise damaged(file.path, f"{key} is not a table of texts")
    return found


def checksums(file: CheckpointFile) -> dict[str, str]:
    """Return the stored checksum of every tensor."""
    return table(file, "fdl.checksums")
