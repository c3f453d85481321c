"""The small program that makes `fdl` a command everywhere: its place, its text, and reading it back.

Before: `~/flodl/.venv/bin/python -m fdl_cli` works, `fdl` does not
After:  `~/.local/bin/fdl` starts exactly that
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

Mode = Literal["environment", "checkout"]

_MARK = re.compile(r"fdl-launcher (?P<mode>environment|checkout) (?P<version>\S+) (?P<target>.+)")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The target of a launcher: a Python that has `fdl`, or the `fdl` script of a checkout."""

    mode: Mode
    version: str
    target: str


def launcher_place(environ: Mapping[str, str], home: Path, *, windows: bool) -> Path:
    """Return where a user's own programs live: the folder that most systems have on PATH.

    Example:
        >>> launcher_place({}, Path("/home/ann"), windows=False).as_posix()
        '/home/ann/.local/bin/fdl'
    """
    named = environ.get("XDG_BIN_HOME", "")
    folder = Path(named) if Path(named).is_absolute() else home / ".local" / "bin"
    return folder / launcher_name(windows=windows)


def launcher_name(*, windows: bool) -> str:
    """Return the file name under which a shell finds the launcher as `fdl`."""
    return "fdl.cmd" if windows else "fdl"


def launcher_text(launcher: Launcher, *, windows: bool) -> str:
    """Return the program; its second line marks it as ours.

    Example:
        >>> text = launcher_text(
        ...     Launcher(mode="environment", version="1.0", target="/v/bin/python"), windows=False
        ... )
        >>> print(text, end="")
        #!/bin/sh
        # fdl-launcher environment 1.0 /v/bin/python
        exec /v/bin/python -P -m fdl_cli "$@"
    """
    mark = f"fdl-launcher {launcher.mode} {launcher.version} {launcher.target}"
    if windows:
        # In a batch file a percent sign stands for itself only when it is doubled.
        target = launcher.target.replace("%", "%%")
        return f'@echo off\r\nrem {mark}\r\n"{target}" -P -m fdl_cli %*\r\n'
    words = shlex.quote(launcher.target)
    if launcher.mode == "environment":
        words += " -P -m fdl_cli"
    return f'#!/bin/sh\n# {mark}\nexec {words} "$@"\n'


def read_launcher(path: Path) -> Launcher | None:
    """Return the target that a file starts; None when it is not a launcher of ours."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    found = _MARK.search(lines[1]) if len(lines) > 1 else None
    if found is None:
        return None
    mode: Mode = "checkout" if found["mode"] == "checkout" else "environment"
    return Launcher(mode=mode, version=found["version"], target=found["target"].strip())
