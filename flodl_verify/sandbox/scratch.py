"""A folder that looks like that of a script, in which the script may write."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import deque
from pathlib import Path
from typing import final

# Data sets of many files are shown as links to their folders, in which nothing can be written.
_MOST_ENTRIES = 4000
_MOST_IN_FOLDER = 1000
_AS_LINKS = frozenset({".git", ".hg", ".venv", "node_modules", "venv"})


@final
class Scratch:
    """The folder: its subfolders are real, and its files are links, until they are written to."""

    def __init__(self, workdir: Path, shown: Path) -> None:
        # Called like the folder that it shows: a program may look.
        self.folder = Path(tempfile.mkdtemp(dir=workdir), shown.name or "root")
        self.folder.mkdir()
        self._root = self.folder.resolve()
        left = _MOST_ENTRIES
        pending = deque([(shown, self.folder)])
        while pending:
            source, target = pending.popleft()
            for entry in _entries(source):
                if _is(entry, workdir) or _is(entry, self.folder.parent):
                    continue  # a folder that shows itself has no end
                left -= 1
                beside = target / entry.name
                with contextlib.suppress(OSError):
                    if left > 0 and _is_mirrored(entry):
                        beside.mkdir()
                        pending.append((Path(entry.path), beside))
                    else:
                        beside.symlink_to(entry.path)

    def place_of(self, path: str | bytes) -> Path | None:
        """Return where in the folder a path lies, links at its end not followed, or None."""
        whole = Path(os.fsdecode(path)).absolute()
        place = whole.parent.resolve() / whole.name
        return place if self._root in place.parents else None

    def make_own(self, path: str | bytes, *, empty: bool) -> None:
        """Replace a link to a user's file by a copy, before it is written to."""
        place = self.place_of(path)
        if place is None or not place.is_symlink():
            return
        target = place.resolve()
        if self._root in target.parents or not target.is_file():
            return
        place.unlink()
        if not empty:
            shutil.copyfile(target, place)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda item: item.name)
    except OSError:
        return []


def _is(entry: os.DirEntry[str], folder: Path) -> bool:
    return entry.name == folder.name and entry.is_dir() and folder.samefile(entry.path)


def _is_mirrored(entry: os.DirEntry[str]) -> bool:
    if entry.name in _AS_LINKS or not entry.is_dir(follow_symlinks=False):
        return False
    with os.scandir(entry.path) as found:
        return sum(1 for _ in found) <= _MOST_IN_FOLDER
