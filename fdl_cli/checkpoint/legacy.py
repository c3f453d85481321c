"""The layout of the Rust framework's files, versions 1 and 2; every length is checked before it is used."""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.checkpoint.model import MOST_DIMENSIONS, CheckpointFile, StoredTensor, damaged

MAGIC: Final = b"FDLC"
_DTYPES: Final = {
    1: ("F16", 2), 2: ("BF16", 2), 3: ("F32", 4), 4: ("F64", 8), 5: ("I32", 4), 6: ("I64", 8),
}  # fmt: skip


@final
@dataclass(slots=True)
class _Cursor:
    path: Path
    data: memoryview
    place: int

    def take(self, count: int) -> memoryview:
        if count > len(self.data) - self.place:
            raise damaged(
                self.path, f"it ends at byte {len(self.data)}, inside a field of {count} bytes"
            )
        self.place += count
        return self.data[self.place - count : self.place]

    def number(self, form: str) -> int:
        value: int = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]
        return value


def read_legacy(path: Path, data: memoryview) -> CheckpointFile:
    """Read all entries of the file.

    Raises:
        OperationFailedError: the file is damaged, or of an unknown version.
    """
    cursor = _Cursor(path, data, len(MAGIC))
    version = cursor.number("I")
    if version not in (1, 2):
        raise damaged(path, f"FDLC version {version} is unknown; 1 and 2 can be read")
    digest = bytes(cursor.take(32))
    tensors = [_tensor(cursor) for _ in range(cursor.number("I"))]
    if cursor.place != len(data):
        raise damaged(path, f"{len(data) - cursor.place} bytes follow the last tensor")
    if len({each.name for each in tensors}) < len(tensors):
        raise damaged(path, "a name occurs twice")
    return CheckpointFile(
        path=path,
        data=data,
        version=version,
        sealed=False,
        metadata={"fdlc.structural_hash": digest.hex()} if any(digest) else {},
        tensors=tuple(tensors),
    )


def _tensor(cursor: _Cursor) -> StoredTensor:
    try:
        name = bytes(cursor.take(cursor.number("I"))).decode()
    except UnicodeDecodeError as problem:
        raise damaged(cursor.path, "the name of a tensor is not UTF-8") from problem
    count = cursor.number("I")
    if count > MOST_DIMENSIONS:
        raise damaged(cursor.path, f"tensor {name!r} announces {count} dimensions")
    shape = struct.unpack(f"<{count}q", cursor.take(8 * count))
    tag, size = cursor.number("B"), cursor.number("Q")
    if tag not in _DTYPES:
        raise damaged(cursor.path, f"tensor {name!r} has the unknown dtype tag {tag}")
    dtype, item = _DTYPES[tag]
    if any(each < 0 for each in shape) or math.prod(shape) * item != size:
        raise damaged(
            cursor.path, f"tensor {name!r}: shape {list(shape)} of {dtype} is not {size} bytes"
        )
    start = cursor.place
    cursor.take(size)
    # Dots, as everywhere else: the last part of a name follows a slash in these files.
    dotted = name.replace("/", ".")
    return StoredTensor(name=dotted, dtype=dtype, shape=shape, start=start, end=start + size)
