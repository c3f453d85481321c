"""Write the report of a bug in `fdl` to a file: versions, command line, traceback."""

import platform
import sys
import time
import traceback
from pathlib import Path

from fdl_cli import __version__


def report_text(problem: BaseException, arguments: tuple[str, ...], home: str) -> str:
    """Return the report; no local values, and the home folder is written as `~`."""
    lines = (
        f"fdl {__version__}",
        f"python {platform.python_version()} ({sys.executable})",
        f"platform {platform.platform()}",
        f"arguments {list(arguments)!r}",
        f"working folder {_working_folder()}",
        "",
        "".join(traceback.format_exception(problem)),
    )
    text = "\n".join(lines)
    return text.replace(home, "~") if home not in ("", "/") else text


def write_report(text: str, folder: Path) -> Path | None:
    """Store a report under the folder, else in the temporary directory, else nowhere."""
    import tempfile

    name = f"bug-{time.strftime('%Y%m%d-%H%M%S')}.txt"
    for place in (folder, Path(tempfile.gettempdir())):
        try:
            place.mkdir(parents=True, exist_ok=True)
            path = place / name
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            # The next place is tried; a report that cannot be stored is printed by the caller.
            continue
        return path
    return None


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "(removed)"
