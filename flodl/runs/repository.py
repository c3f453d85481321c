"""Git facts about the running code: commit, branch, and a digest of uncommitted changes."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import final

_SECONDS = 5.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CodeState:
    """The code of a run.

    Attributes:
        commit: the commit that is checked out.
        branch: its branch, empty for none.
        dirty: whether anything differs from the commit.
        digest: a digest of these differences, empty when there are none.
    """

    commit: str
    branch: str
    dirty: bool
    digest: str


def code_state(folder: Path) -> CodeState | None:
    """Return the state of the repository around a folder; nothing where there is none, or no git."""
    try:
        commit = _git(folder, "rev-parse", "HEAD").decode().strip()
        branch = _git(folder, "branch", "--show-current").decode().strip()
        status = _git(folder, "status", "--porcelain")
        changes = _git(folder, "diff", "HEAD", "--no-ext-diff", "--binary") if status else b""
    except (OSError, subprocess.SubprocessError):
        return None
    digest = hashlib.sha256(status + changes).hexdigest() if status else ""
    return CodeState(commit=commit, branch=branch, dirty=bool(status), digest=digest)


def _git(folder: Path, *words: str) -> bytes:
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        check=True,
        capture_output=True,
        timeout=_SECONDS,
        # Reading must not disturb a commit at the same moment.
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    )
    return done.stdout
