"""Transactions on the files of one folder: after a kill, all of them changed or none did.

The new contents are first written to a separate folder, with a journal. Renaming that folder
is the moment of decision: before it nothing has happened, and after it `recover` finishes what a
killed process left, by repeating moves that are harmless to repeat.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from fdl_cli.errors import ConflictError
from fdl_cli.system.atomic import default_mode

PENDING = ".fdl-pending"
_JOURNAL = "journal.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """The new content of one file, by its path in the folder; no content removes the file."""

    path: str
    data: bytes | None
    executable: bool = False


def apply_changes(root: Path, changes: Iterable[FileChange]) -> None:
    """Make all changes, or none; an earlier set that was interrupted is finished first.

    Raises:
        ConflictError: a path leads out of the folder, through `..` or a symbolic link.
    """
    recover(root)
    wanted = tuple(changes)
    for change in wanted:
        _require_inside(root, change.path)
    if not wanted:
        return
    staging = Path(tempfile.mkdtemp(dir=root, prefix=f"{PENDING}-", suffix=".tmp"))
    try:
        _stage(root, staging, wanted)
        staging.rename(root / PENDING)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    _sync(root)
    recover(root)


def recover(root: Path) -> bool:
    """Finish a set of changes that was decided but not completed; say whether there was one."""
    for remains in root.glob(f"{PENDING}-*.tmp"):
        shutil.rmtree(remains, ignore_errors=True)
    pending = root / PENDING
    if not (pending / _JOURNAL).is_file():
        return False
    for item in json.loads((pending / _JOURNAL).read_text(encoding="utf-8")):
        _move(root, pending, item)
    _sync(root)
    # Renamed first: a half-removed folder must never be taken for a decision.
    finished = Path(tempfile.mkdtemp(dir=root, prefix=f"{PENDING}-", suffix=".tmp"))
    pending.rename(finished / "done")
    shutil.rmtree(finished, ignore_errors=True)
    return True


def _stage(root: Path, staging: Path, changes: tuple[FileChange, ...]) -> None:
    journal = []
    for number, change in enumerate(changes):
        staged = None
        if change.data is not None:
            staged = str(number)
            path = staging / staged
            _write(path, change.data)
            target = root / change.path
            exists = target.is_file()
            mode = target.stat().st_mode if exists else default_mode(executable=change.executable)
            path.chmod(mode & 0o7777)
        journal.append({"path": change.path, "staged": staged})
    _write(staging / _JOURNAL, json.dumps(journal).encode())
    _sync(staging)


def _move(root: Path, pending: Path, item: dict[str, Any]) -> None:
    target = root / item["path"]
    if item["staged"] is None:
        target.unlink(missing_ok=True)
        _remove_empty(target.parent, root)
        return
    staged = pending / item["staged"]
    if staged.exists():  # else it was moved before the interruption
        target.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(target)


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove folders that a removed file leaves empty."""
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _require_inside(root: Path, path: str) -> None:
    real_root = root.resolve()
    parent = (root / path).parent.resolve()
    if not parent.is_relative_to(real_root) or (root / path).is_symlink():
        raise ConflictError(
            error_id="path-outside",
            message=f"`{path}` leads out of `{root}`, so it is not written",
            hint="replace the symbolic link by a folder or file of its own",
        )


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    # Windows has no way to flush a folder, and does not need one.
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
