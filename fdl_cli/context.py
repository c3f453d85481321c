"""Context of a command: folders, environment, verbosity, output form."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from fdl_cli.folders import user_folder

if TYPE_CHECKING:
    from fdl_cli.console import Console

MANIFEST_NAME = "fdl.yml"
# The lock file of a project: `fdl init` writes it first, `fdl setup --lock` again.
LOCK_NAME = "constraints.txt"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Directories:
    """The user's folders for configuration, caches, state and data; none need exist yet."""

    config: Path
    cache: Path
    state: Path
    data: Path


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything a command gets besides its own options.

    `verbosity` is -1 (quiet), 0, 1 (`-v`) or 2 (`-vv`). `interactive` is true only when a
    prompt is possible. `project_root` is the nearest folder upwards that holds `fdl.yml`.
    """

    cwd: Path
    environ: Mapping[str, str]
    directories: Directories
    project_root: Path | None
    verbosity: int
    json: bool
    interactive: bool
    console: "Console"


def directories(environ: Mapping[str, str], platform: str = sys.platform) -> Directories:
    """Find the user's folders: `FLODL_HOME`, else XDG variables, else the platform's habit.

    A machine without `HOME` gets folders under the temporary directory, so nothing crashes.

    Example:
        >>> directories({"FLODL_HOME": "/srv/flodl"}).cache
        PosixPath('/srv/flodl/cache')
    """
    return Directories(
        config=Path(user_folder("config", environ, platform)),
        cache=Path(user_folder("cache", environ, platform)),
        state=Path(user_folder("state", environ, platform)),
        data=Path(user_folder("data", environ, platform)),
    )


def find_project_root(start: Path) -> Path | None:
    """Return the nearest folder at or above `start` that holds a manifest."""
    for folder in (start, *start.parents):
        if (folder / MANIFEST_NAME).is_file():
            return folder
    return None
