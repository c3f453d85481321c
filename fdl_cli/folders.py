"""This user's folders for configuration, caches, state and data, as plain text.

On the path of `fdl <task>`: text and not `pathlib`, which costs half an empty Python to import.
"""

import sys
from collections.abc import Mapping
from typing import Final, Literal

FolderKind = Literal["config", "cache", "state", "data"]

_XDG: Final[Mapping[FolderKind, str]] = {
    "config": "XDG_CONFIG_HOME",
    "cache": "XDG_CACHE_HOME",
    "state": "XDG_STATE_HOME",
    "data": "XDG_DATA_HOME",
}
_UNIX: Final[Mapping[FolderKind, str]] = {
    "config": ".config",
    "cache": ".cache",
    "state": ".local/state",
    "data": ".local/share",
}


def user_folder(kind: FolderKind, environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return one folder: `FLODL_HOME`, else the XDG variable, else the platform's habit.

    A machine without `HOME` gets folders under the temporary directory, so nothing crashes.

    Example:
        >>> user_folder("cache", {"FLODL_HOME": "/srv/flodl"})
        '/srv/flodl/cache'
    """
    own = environ.get("FLODL_HOME")
    if own:
        return f"{own}/{kind}"
    # The XDG specification says that a relative path in these variables must be ignored.
    named = environ.get(_XDG[kind], "")
    if named.startswith("/"):
        return f"{named}/flodl"
    return f"{_home(environ)}/{_habit(kind, platform)}/flodl"


def _home(environ: Mapping[str, str]) -> str:
    named = environ.get("HOME") or environ.get("USERPROFILE")
    if named:
        return named
    import tempfile

    return f"{tempfile.gettempdir()}/flodl-no-home"


def _habit(kind: FolderKind, platform: str) -> str:
    if platform == "darwin":
        return "Library/Caches" if kind == "cache" else "Library/Application Support"
    if platform == "win32":
        return "AppData/Local"
    return _UNIX[kind]
