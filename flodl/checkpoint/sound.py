"""Files that this process has checked byte by byte or written itself, and that are unchanged since."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

Stamp: TypeAlias = tuple[int, int, int, int, int]
_MOST: Final = 256
_known: OrderedDict[Stamp, None] = OrderedDict()
_lock: Final = threading.Lock()


def stamp_of(file: int | Path) -> Stamp:
    """Return a key that changes when a file, open or by name, is written to, renamed or replaced.

    Writing through a map changes the times only once per flush. Two changes within one tick of the file
    system's clock look like one. So a stamp may defer a check, but never replaces it.
    """
    found = os.stat(file)  # noqa: PTH116  # also of a descriptor
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def remember(stamp: Stamp | None) -> None:
    """Note that a file is sound; only the latest few hundred are kept, and no file that has gone."""
    if stamp is None:
        return
    with _lock:
        _known[stamp] = None
        _known.move_to_end(stamp)
        while len(_known) > _MOST:
            _known.popitem(last=False)


def is_known(stamp: Stamp) -> bool:
    """Return True if a file was found sound by this process and looks the same."""
    with _lock:
        return stamp in _known


def forget_all() -> None:
    """Know nothing of any file, as a new process."""
    with _lock:
        _known.clear()
