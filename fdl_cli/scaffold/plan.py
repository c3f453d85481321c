"""Decisions about each file of a project, before anything is written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, Literal, final

from fdl_cli.context import LOCK_NAME
from fdl_cli.scaffold.merge import merge
from fdl_cli.scaffold.rendering import ProjectFile

Action = Literal["create", "same", "update", "merge", "conflict", "skip", "remove"]

# Files that people write themselves: an update never touches them.
OWNED: Final = (
    "src/*/model.py", "src/*/data.py", "src/*/encoder.py", "tests/test_model.py", "configs/*",
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file, its action and the reason; `text` is its new text, where that changes."""

    path: str
    action: Action
    reason: str = ""
    text: str | None = None


def plan_new(
    root: Path, files: tuple[ProjectFile, ...], *, force: bool, skip_existing: bool
) -> tuple[PlannedFile, ...]:
    """Plan a new project; an existing file conflicts, unless told otherwise."""
    planned = []
    for file in files:
        ours = read_text(root / file.path)
        if ours is None and not (root / file.path).exists():
            step = PlannedFile(path=file.path, action="create", text=file.text)
        elif ours == file.text:
            step = PlannedFile(path=file.path, action="same")
        elif skip_existing:
            step = PlannedFile(path=file.path, action="skip", reason="it exists")
        elif force:
            step = PlannedFile(path=file.path, action="update", text=file.text)
        else:
            step = PlannedFile(path=file.path, action="conflict", reason="it exists")
        planned.append(step)
    return tuple(planned)


def plan_update(
    root: Path, base: Mapping[str, str], files: tuple[ProjectFile, ...]
) -> tuple[PlannedFile, ...]:
    """Plan an update: the three-way merge of pristine copies, the project and new templates."""
    new = {file.path: file.text for file in files}
    return tuple(_steps(root, base, new))


def _steps(root: Path, base: Mapping[str, str], new: Mapping[str, str]) -> Iterator[PlannedFile]:
    for path in sorted(base.keys() | new.keys()):
        ours = read_text(root / path)
        if ours is None and (root / path).exists():
            yield PlannedFile(path=path, action="skip", reason="it is not a text file any more")
        elif path not in new:
            if ours is not None:
                yield _dropped(path, ours, base[path])
        elif path not in base:
            yield _appeared(path, ours, new[path])
        else:
            yield _changed(path, ours, base[path], new[path])


def _dropped(path: str, ours: str, base: str) -> PlannedFile:
    if ours == base:
        return PlannedFile(path=path, action="remove", reason="the templates no longer have it")
    return PlannedFile(path=path, action="skip", reason="you changed it, so it stays")


def _appeared(path: str, ours: str | None, theirs: str) -> PlannedFile:
    if ours is None:
        return PlannedFile(path=path, action="create", text=theirs)
    if ours == theirs:
        return PlannedFile(path=path, action="same")
    return PlannedFile(path=path, action="skip", reason="a file of this name is yours already")


def _changed(path: str, ours: str | None, base: str, theirs: str) -> PlannedFile:
    if ours is None:
        return PlannedFile(path=path, action="skip", reason="you removed it, so it stays away")
    if theirs in (base, ours):
        return PlannedFile(path=path, action="same")
    if any(fnmatch(path, pattern) for pattern in OWNED):
        return PlannedFile(path=path, action="skip", reason="it is yours to write")
    if ours == base:
        return PlannedFile(path=path, action="update", text=theirs)
    if path == LOCK_NAME:  # versions of two sides make none that was ever installed
        return PlannedFile(path=path, action="skip", reason="`fdl setup --lock` writes it")
    merged = merge(base, ours, theirs)
    if merged.conflicts:
        places = f"{merged.conflicts} place{'s' if merged.conflicts > 1 else ''} to decide"
        return PlannedFile(path=path, action="conflict", reason=places, text=merged.text)
    return PlannedFile(path=path, action="merge", text=merged.text)


def read_text(path: Path) -> str | None:
    """Return the text of a file exactly; nothing where there is none, or no text."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
