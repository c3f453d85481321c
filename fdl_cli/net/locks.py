"""One lock per file, held by one process at a time, free again when that process dies."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fdl_cli.errors import OperationFailedError

POLL_SECONDS: Final = 0.1

Say = Callable[[str], None]


@contextmanager
def locked(path: Path, *, wait_seconds: float, say: Say) -> Iterator[None]:
    """Hold a lock file; while another process holds it, wait and say for whom.

    The operating system holds the lock, not the file's existence, so a killed process leaves
    nothing stale behind.

    Raises:
        OperationFailedError: the lock was not free in time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _wait(handle, path, wait_seconds, say)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, path: Path, wait_seconds: float, say: Say) -> None:
    deadline = time.monotonic() + wait_seconds
    told = False
    while not _try_lock(handle):
        holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
        if not told:
            say(f"waiting for process {holder or 'of unknown id'}, which fetches the same file")
            told = True
        if time.monotonic() > deadline:
            raise OperationFailedError(
                error_id="lock-timeout",
                message=f"process {holder} holds `{path}` for more than {wait_seconds:g} s",
                hint=f"end it if it hangs: `kill {holder}`",
            )
        time.sleep(POLL_SECONDS)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
