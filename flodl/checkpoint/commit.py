"""Writing a file so that at every moment, whatever fails, either the old or the new one is there, whole."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import secrets
import socket
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from flodl.checkpoint.sound import Stamp, stamp_of
from flodl.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

_BUFFER = 1 << 20


def commit(path: Path, write: Callable[[BinaryIO], None]) -> Stamp | None:
    """Write a file beside its place, flush it to the disk, and put it in its place in one step.

    A path that ends in `.gz` is compressed.  A symbolic link stays one; its target is replaced.

    Returns:
        The stamp of the new file, or None if another has already taken its place.

    Raises:
        CheckpointError: the file system refused something; the old file is untouched.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{_owner()}.{secrets.token_hex(4)}.tmp")
    try:
        written = _write_through(temporary, write, compress=path.name.endswith(".gz"))
        _keep_mode(target, temporary)
        os.replace(temporary, target)  # noqa: PTH105  # what the tests make fail
        _flush_directory(target.parent)
    except OSError as error:
        _remove(temporary)
        reason = error.strerror or str(error)
        raise CheckpointError(
            f"cannot be written ({reason}); an earlier file is unchanged", path=str(path)
        ) from error
    except BaseException:
        _remove(temporary)
        raise
    _sweep(target)
    with contextlib.suppress(OSError):
        placed = stamp_of(target)
        return placed if placed[:-1] == written[:-1] else None  # a rename changes the last time
    return None


def _write_through(temporary: Path, write: Callable[[BinaryIO], None], *, compress: bool) -> Stamp:
    raw = FileIO(temporary, "x")
    try:
        buffered = BufferedWriter(raw, _BUFFER)
        if compress:
            # No name and no time in the gzip header: equal contents are equal files.
            with gzip.GzipFile("", "wb", 6, cast("BinaryIO", buffered), mtime=0) as packed:
                write(cast("BinaryIO", packed))
        else:
            write(cast("BinaryIO", buffered))
        buffered.flush()
        os.fsync(raw.fileno())
        return stamp_of(raw.fileno())
    finally:
        # Closing the raw file, not the buffer: after an error the buffer would write again.
        raw.close()


def _keep_mode(target: Path, temporary: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        temporary.chmod(target.stat().st_mode & 0o7777)


def _flush_directory(directory: Path) -> None:
    if os.name == "nt":
        return  # Windows cannot open directories; its rename is journalled.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _owner() -> str:
    return f"{re.sub(r'[^A-Za-z0-9-]', '-', socket.gethostname())}-{os.getpid()}"


def _sweep(target: Path) -> None:
    """Remove what writers of this file left behind when they were killed on this machine."""
    host = _owner().rpartition("-")[0]
    pattern = re.compile(rf"\.{re.escape(target.name)}\.{re.escape(host)}-(\d+)\.[0-9a-f]+\.tmp")
    with contextlib.suppress(OSError):
        for each in target.parent.iterdir():
            found = pattern.fullmatch(each.name)
            if found and not _alive(int(found[1])):
                _remove(each)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
