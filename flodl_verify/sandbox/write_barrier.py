"""Rules of the kernel against writes of this process outside some folders, its network and its signals.

Python's audit events do not see what libraries do by themselves; Landlock sees everything, programs that
are started included. Its versions know more and more:

    Linux 5.19  no write outside of the folders
    Linux 6.2   no truncation either
    Linux 6.7   no TCP connection, and no TCP port to listen on
    Linux 6.12  no signal to a process that was not started from here, and no abstract Unix socket of one

Where there is none, nothing happens. The rules hold for all processes that this one starts; each of them
may forbid itself more, and none less.

This file imports nothing but Python: it runs before anything else does.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_ASK_VERSION = 1
_PATH_BENEATH = 1
# The first version that lets files be renamed from one allowed folder to another.
_FIRST_VERSION = 2
_TRUNCATE_VERSION = 3
_NETWORK_VERSION = 4
_SCOPES_VERSION = 6
_TCP = 1 << 0 | 1 << 1  # to listen, and to connect
_SCOPES = 1 << 0 | 1 << 1  # abstract Unix sockets, and signals
_WRITE_FILE = 1 << 1
# Write, remove and make files of every kind, and link or rename across folders.
_WRITING = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13))
_TRUNCATE = 1 << 14
# Rights that a file, as against a folder, can have.
_OF_FILES = _WRITE_FILE | _TRUNCATE
# Memory that processes share is a file there.
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "shm")


def landlock_version() -> int:
    """Return the version of Landlock's interface that the kernel has, -1 where it has none."""
    if sys.platform != "linux":
        return -1
    library = ctypes.CDLL(None, use_errno=True)
    return int(library.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


def forbid_writes(folders: Iterable[Path]) -> bool:
    """Let this process write below some folders and to harmless devices only, and reach no other process.

    Returns whether the kernel does that.
    """
    version = landlock_version()
    if version < _FIRST_VERSION:
        return False
    library = ctypes.CDLL(None, use_errno=True)
    rights = _WRITING | (_TRUNCATE if version >= _TRUNCATE_VERSION else 0)
    # A kernel takes no field that it does not know.
    fields = [rights]
    if version >= _NETWORK_VERSION:
        fields.append(_TCP)
    if version >= _SCOPES_VERSION:
        fields.append(_SCOPES)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = library.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for place in (*folders, *(Path("/dev", name) for name in _DEVICES)):
            _allow(library, ruleset, place, rights)
        library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(library.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(library: ctypes.CDLL, ruleset: int, place: Path, rights: int) -> None:
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rule = struct.pack("=Qi", rights if is_folder else rights & _OF_FILES, descriptor)
        library.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)
