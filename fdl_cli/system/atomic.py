"""Atomic writes: a reader, or a killed process, sees the old file or the new one."""

import os
import tempfile
from pathlib import Path

# mkstemp gives private files; a project's files are as open as the user's umask allows.
_OPEN_FILE = 0o666


def write_whole(path: Path, data: bytes, *, executable: bool = False) -> None:
    """Replace a file in one step, with its folder made where it is missing.

    An existing file keeps its mode. Nothing is left behind when writing fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o7777 if path.exists() else default_mode(executable=executable)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".fdl-", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def default_mode(*, executable: bool = False) -> int:
    """Return the mode that a new file of this user gets."""
    umask = os.umask(0)
    os.umask(umask)
    return (_OPEN_FILE | (0o111 if executable else 0)) & ~umask
