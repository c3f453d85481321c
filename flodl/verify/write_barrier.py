"""Asks the kernel to refuse writes of this process outside some folders.

Python's audit events do not see what libraries write by themselves; Landlock (Linux 5.19) sees
everything, programs that are started included. Where there is none, nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_ASK_VERSION = 1
_PATH_BENEATH = 1
# The first version that lets files be renamed from one allowed folder to another.
_FIRST_VERSION = 2
_TRUNCATE_VERSION = 3
# Write, remove and make files of every kind, and link or rename across folders.
_WRITING = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13))
_TRUNCATE = 1 << 14


def forbid_writes(workdir: Path, protected: Iterable[Path]) -> bool:
    """Let this process write below `workdir`, devices and temporary folders only.

    If a protected folder is itself a temporary one, temporary files go below `workdir`. Returns
    whether the kernel does that.
    """
    library = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    version = library.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION) if library else -1
    if library is None or version < _FIRST_VERSION:
        return False
    rights = _WRITING | (_TRUNCATE if version >= _TRUNCATE_VERSION else 0)
    attributes = struct.pack("Q", rights)
    ruleset = library.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for folder in (workdir, Path("/dev"), _temporary(workdir, protected)):
            _allow(library, ruleset, folder, rights)
        library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(library.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _temporary(workdir: Path, protected: Iterable[Path]) -> Path:
    usual = Path(tempfile.gettempdir()).resolve()
    if not any(folder.resolve().is_relative_to(usual) for folder in protected):
        return usual
    own = workdir / "tmp"
    own.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(own)
    return own


def _allow(library: ctypes.CDLL, ruleset: int, folder: Path, rights: int) -> None:
    place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, place)
        library.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)
