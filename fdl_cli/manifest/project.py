"""The project around a folder: its manifest and overlay."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from fdl_cli.errors import (
    ConfigError,
    EnvironmentLackingError,
    FdlError,
    NotFoundError,
    UsageError,
)
from fdl_cli.manifest.discover import find_root, other_manifest_hint
from fdl_cli.manifest.model import LOCAL, MANIFEST, Stored, Trouble, overlay_name
from fdl_cli.manifest.reading.load import Manifest, load
from fdl_cli.manifest.store import keep


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The context of the task runner besides the command line; `commands` are those of fdl itself."""

    cwd: Path
    environ: Mapping[str, str]
    commands: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project with its valid manifest, as loaded and as running needs it."""

    manifest: Manifest
    stored: Stored


def require_root(cwd: Path) -> Path:
    """Return the project's folder.

    Raises:
        NotFoundError: there is no manifest here or above.
    """
    root = find_root(str(cwd))
    if root is None:
        raise NotFoundError(
            error_id="project-missing",
            message=f"there is no `{MANIFEST}` in `{cwd}` or above it",
            hint=other_manifest_hint(str(cwd))
            or "go to a project, or make one with `fdl init NAME`",
        )
    return Path(root)


def open_project(around: Surroundings, environment: str | None) -> Project:
    """Load the manifest with an overlay (or the one that `FDL_ENV` names), and remember it.

    Raises:
        NotFoundError: there is no project, or no such overlay.
        ConfigError: the manifest is invalid.
    """
    root = require_root(around.cwd)
    name = environment or around.environ.get("FDL_ENV") or None
    manifest = load(root, name)
    stored = Stored(str(root), name, manifest.tree, manifest.digest)
    keep(stored, manifest.layers, around.environ)
    return Project(manifest=manifest, stored=stored)


def take_overlay(
    around: Surroundings, words: tuple[str, ...], *, asked: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """Read an overlay as the first word (`fdl ci test`, `fdl @ci test`).

    Returns the overlay, or None, and the words that are left.

    Raises:
        UsageError: the word is an overlay and a task, or two overlays are named.
    """
    if not words:
        return asked, words
    root = require_root(around.cwd)
    word = words[0].removeprefix("@")
    file = root / overlay_name(word)
    is_file = "/" not in word and file.name not in (MANIFEST, LOCAL) and file.is_file()
    if words[0].startswith("@"):
        _require_one(asked, word)
        return word, words[1:]
    if not is_file:
        return asked, words
    tasks = open_project(around, asked).stored.tree.get("commands")
    if isinstance(tasks, dict) and word in tasks:
        raise UsageError(
            error_id="word-ambiguous",
            message=f"`{word}` is a task and an overlay (`{file.name}`)",
            hint=f"write `fdl run {word}` for the task, `fdl --env {word} TASK` for the overlay",
            file=str(file),
        )
    _require_one(asked, word)
    return word, words[1:]


# The error for each kind of `Trouble`.
TROUBLES: Final[dict[str, tuple[type[FdlError], str]]] = {
    "arguments": (UsageError, "task-arguments"),
    "option": (UsageError, "task-option"),
    "usage": (UsageError, "usage"),
    "variable": (EnvironmentLackingError, "variable-missing"),
    "service": (ConfigError, "service-unknown"),
}


def explained(trouble: Trouble) -> FdlError:
    """Turn the problems that the pure modules found into the error that people see."""
    kind, error_id = TROUBLES[trouble.kind]
    return kind(error_id=error_id, message=trouble.message, hint=trouble.hint)


def runs_natively(path: str) -> bool:
    """Return True if a path exists; given to the pure modules, which read nothing themselves."""
    return os.path.exists(path)


def _require_one(asked: str | None, word: str) -> None:
    if asked is not None and asked != word:
        raise UsageError(
            error_id="overlay-twice",
            message=f"two overlays are named: `{asked}` and `{word}`",
            hint="keep one of them",
        )
