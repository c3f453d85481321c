"""What a command may know about where it runs: folders, environment, verbosity, output form."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from fdl_cli.console import Console

MANIFEST_NAME = "fdl.yml"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Directories:
    """Where this user's configuration, caches, state and data live; none need exist yet."""

    config: Path
    cache: Path
    state: Path
    data: Path


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything a command gets besides its own options.

    `verbosity` is -1 (quiet), 0, 1 (`-v`) or 2 (`-vv`). `interactive` is true only when a
    question may be asked. `project_root` is the nearest folder upwards that holds `fdl.yml`.
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
    own = environ.get("FLODL_HOME")
    if own:
        root = Path(own)
        return Directories(
            config=root / "config", cache=root / "cache", state=root / "state", data=root / "data"
        )
    home = _home(environ)
    config, cache, state, data = _platform_roots(home, platform)
    return Directories(
        config=_xdg(environ, "XDG_CONFIG_HOME", config) / "flodl",
        cache=_xdg(environ, "XDG_CACHE_HOME", cache) / "flodl",
        state=_xdg(environ, "XDG_STATE_HOME", state) / "flodl",
        data=_xdg(environ, "XDG_DATA_HOME", data) / "flodl",
    )


def find_project_root(start: Path) -> Path | None:
    """Return the nearest folder at or above `start` that holds a manifest."""
    for folder in (start, *start.parents):
        if (folder / MANIFEST_NAME).is_file():
            return folder
    return None


def _home(environ: Mapping[str, str]) -> Path:
    named = environ.get("HOME") or environ.get("USERPROFILE")
    if named:
        return Path(named)
    import tempfile

    return Path(tempfile.gettempdir()) / "flodl-no-home"


def _platform_roots(home: Path, platform: str) -> tuple[Path, Path, Path, Path]:
    if platform == "darwin":
        support = home / "Library" / "Application Support"
        return support, home / "Library" / "Caches", support, support
    if platform == "win32":
        local = home / "AppData" / "Local"
        return local, local, local, local
    return (
        home / ".config",
        home / ".cache",
        home / ".local" / "state",
        home / ".local" / "share",
    )


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    # The XDG specification says that a relative path in these variables must be ignored.
    value = environ.get(name, "")
    return Path(value) if value.startswith("/") else default
