"""Reader of any checkpoint: ours, plain safetensors, or the Rust framework's, also gzipped."""

import gzip
import mmap
import zlib
from pathlib import Path
from typing import BinaryIO

from fdl_cli.checkpoint.legacy import MAGIC, read_legacy
from fdl_cli.checkpoint.model import CheckpointFile, StoredTensor, damaged
from fdl_cli.checkpoint.safetensors import announced_size, read_safetensors
from fdl_cli.errors import NotFoundError, OperationFailedError, UsageError

__all__ = ["CheckpointFile", "StoredTensor", "open_checkpoint", "problems"]

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_PICKLE = b"\x80"
# The second half of the length of a safetensors header, and the first byte of the header.
_HEADER_FOLLOWS = b"\0\0\0\0{"
_CHUNK = 1 << 20
# The same bounds as in flodl: weights hardly compress, and zlib can expand a file 1032-fold.
_RATIO = 64
_FLOOR = 64 << 20


def open_checkpoint(path: Path) -> CheckpointFile:
    """Read the header of a file and check everything that needs no data.

    Raises:
        NotFoundError: there is no such file.
        UsageError: it is a file of `torch.save`, or a folder.
        OperationFailedError: the file is damaged.
    """
    data = _content(path)
    if bytes(data[:4]) == MAGIC:
        return read_legacy(path, data)
    if _is_of_torch(bytes(data[:9])):
        raise UsageError(
            error_id="checkpoint-is-a-pickle",
            message=f"{path} was written by torch.save, which only torch can read",
            hint=f"load it in Python with flodl.load_checkpoint({str(path)!r}, model)",
            file=str(path),
        )
    return read_safetensors(path, data)


def _is_of_torch(first: bytes | bytearray) -> bool:
    """Return True for a file of torch.save: a header of 128, 384, ... bytes begins like a pickle."""
    return first.startswith(_ZIP) or (first.startswith(_PICKLE) and first[4:9] != _HEADER_FOLLOWS)


def _content(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            if file.read(2) == _GZIP:
                return memoryview(_unpacked(path, file))
            if file.seek(0, 2) == 0:
                raise damaged(path, "the file is empty")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError as problem:
        raise NotFoundError(
            error_id="checkpoint-missing",
            message=f"there is no file {path}",
            hint="give the path of a .fdl or .safetensors file",
        ) from problem
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise damaged(path, f"the compressed data is damaged: {problem}") from problem
    except OSError as problem:
        raise UsageError(
            error_id="checkpoint-unreadable",
            message=f"{path} cannot be read: {problem.strerror or problem}",
            hint="give the path of a .fdl or .safetensors file that you may read",
            file=str(path),
        ) from problem


def _unpacked(path: Path, file: BinaryIO) -> bytearray:
    """Decompress a file, but no more than its header announces and its size on the disk explains."""
    packed_size = file.seek(0, 2)
    file.seek(0)
    most = max(_FLOOR, _RATIO * packed_size)
    data = bytearray()
    announced: int | None = None
    with gzip.GzipFile(fileobj=file, mode="rb") as packed:
        while chunk := packed.read(_CHUNK):
            data += chunk
            if announced is None and not (data.startswith(MAGIC) or _is_of_torch(data[:9])):
                announced = announced_size(path, data)
            if max(len(data), announced or 0) > most:
                raise OperationFailedError(
                    error_id="checkpoint-too-large",
                    message=(
                        f"{path}: {packed_size:,} compressed bytes unpack to "
                        f"{f'{announced:,}' if announced else f'more than {most:,}'} bytes, and at most "
                        f"{most:,} are read"
                    ),
                    hint="if you trust the file, unpack it with `gunzip` and name the result",
                    file=str(path),
                )
            if announced is not None and len(data) > announced:
                raise damaged(path, f"it holds more than the {announced} bytes it announces")
    return data


def problems(file: CheckpointFile) -> tuple[str, ...]:
    """Compare every tensor with its stored checksum and return those that do not match."""
    if not file.sealed:
        return ()
    from xxhash import xxh3_64_hexdigest

    from fdl_cli.checkpoint.safetensors import checksums

    stored = checksums(file)
    return tuple(
        f"tensor {each.name!r} is damaged: its checksum does not match"
        for each in file.tensors
        if stored.get(each.name) != xxh3_64_hexdigest(file.content(each))
    )
