"""The other files of the project that a file belongs to, nearest first."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_FILES = 3000
MAX_BYTES = 1 << 20
_FOREIGN = frozenset({"site-packages", "node_modules", "venv", "env", "build", "dist"})


def project_files(
    file: Path, folders: Sequence[Path], endings: tuple[str, ...] = (".py",)
) -> Iterator[Path]:
    """Yield the files with such endings in the folders: those in the file's own first, then from the top."""
    seen: set[Path] = {file}
    pending = deque([file.parent, *folders] if file.name else folders)
    opened: set[Path] = set()
    while pending and len(seen) < MAX_FILES:
        folder = pending.popleft()
        if folder in opened:
            continue
        opened.add(folder)
        inner, files = _listed(folder, endings)
        pending.extend(inner)
        for item in files:
            if item not in seen:
                seen.add(item)
                yield item


def with_own(file: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield a file, then the other Python files of its project."""
    yield file
    yield from project_files(file, folders)


def texts_with(words: bytes, files: Iterator[Path]) -> Iterator[tuple[Path, bytes]]:
    """Yield the files that hold some words, with what is in them."""
    for item in files:
        try:
            text = item.read_bytes() if item.stat().st_size <= MAX_BYTES else b""
        except OSError:
            continue
        if words in text:
            yield item, text


def _listed(folder: Path, endings: tuple[str, ...]) -> tuple[list[Path], list[Path]]:
    """Return the folders and the files with such endings in a folder, in order; links are not followed."""
    inner: list[Path] = []
    files: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda item: item.name):
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in _FOREIGN:
                        inner.append(Path(entry.path))
                # Regular files only: to open a pipe would wait for its writer.
                elif entry.name.endswith(endings) and entry.is_file():
                    files.append(Path(entry.path))
    except OSError:
        pass
    return inner, files
