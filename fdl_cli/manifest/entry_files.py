"""The files that the options of a task's program come from, so that a changed one is noticed.

On the path of `fdl <task>`. Before: `[python, -m, digits.train]`; after: `src/digits/train.py`.
"""

import os
import re
from typing import Final

from fdl_cli.manifest.model import Stored, Value
from fdl_cli.manifest.resolve import Found

_PYTHON: Final = re.compile(r"(.*/)?python(\d(\.\d+)?)?")
_SHELL: Final = re.compile(r"[|&;<>()$`\n*?\[\]{}~#]")


def declared(found: Found) -> Value:
    """Return what the manifest says the task runs: its entry, else its `run`."""
    return found.task.get("run") if found.entry is None else found.entry.get("entry")


def entry_command(found: Found) -> tuple[str, ...] | None:
    """Return the entry as program and arguments; nothing for a line that needs a shell."""
    command = declared(found)
    if isinstance(command, list):
        return tuple(str(word) for word in command)
    if not isinstance(command, str) or _SHELL.search(command):
        return None
    from shlex import split

    try:
        return tuple(split(command)) or None
    except ValueError:
        return None


def entry_file(found: Found) -> str | None:
    """Return the file that an entry runs, if it lies in the project."""
    command = entry_command(found)
    if not command:
        return None
    words = list(command[1:]) if _PYTHON.fullmatch(command[0]) else [command[0]]
    while words and words[0].startswith("-") and words[0] != "-m":
        words.pop(0)
    if len(words) > 1 and words[0] == "-m":
        parts = words[1].replace(".", "/")
        tails = (f"{parts}.py", f"{parts}/__main__.py")
        candidates = [f"{start}{tail}" for start in ("", "src/") for tail in tails]
    else:
        candidates = words[:1]
    for candidate in candidates:
        path = candidate if candidate.startswith("/") else f"{found.folder}/{candidate}"
        if os.path.isfile(path):
            return path
    return None


def is_python(found: Found) -> bool:
    """Return True if the entry is started with a Python."""
    command = entry_command(found)
    return command is not None and _PYTHON.fullmatch(command[0]) is not None


def watched(found: Found) -> str | None:
    """Return the folder whose Python files decide whether a schema is fresh."""
    file = entry_file(found)
    return os.path.dirname(file) if file else None


def signature(folder: str | None) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of the files that an entry's options may come from."""
    if folder is None:
        return ()
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".sh")) and entry.is_file():
                status = entry.stat()
                found.append((entry.name, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))


def schema_key(stored: Stored, found: Found) -> str:
    """Return the identity of an entry: its project, its file and its command."""
    return f"{stored.root}\n{found.folder}\n{declared(found)!r}\n{stored.tree.get('venv')}"
