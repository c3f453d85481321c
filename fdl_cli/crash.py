"""Report of a bug in `fdl`, written to a file: versions, command line, traceback."""

import os
import platform
import re
import secrets
import sys
import time
import traceback
from pathlib import Path

from fdl_cli import __version__

# Options and variables whose values open doors.
_SECRET_NAME = re.compile(
    r"(?i)(token|secret|passw|pwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth(?!or)|bearer)"
)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_MASK = "<masked>"


def masked(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line without the values of options that sound like secrets.

    Example:
        >>> masked(("train", "--api-key", "abc", "--token=def", "https://ann:pw@host/x"))
        ('train', '--api-key', '<masked>', '--token=<masked>', 'https://<masked>@host/x')
    """
    found = []
    hide_next = False
    for word in arguments:
        name, equals, _ = word.partition("=")
        is_secret = _SECRET_NAME.search(name) is not None
        if hide_next and not word.startswith("--"):
            found.append(_MASK)
            hide_next = False
            continue
        hide_next = is_secret and word.startswith("-") and not equals
        found.append(
            f"{name}={_MASK}" if is_secret and equals else _CREDENTIALS.sub(f"{_MASK}@", word)
        )
    return tuple(found)


def report_text(problem: BaseException, arguments: tuple[str, ...], home: str) -> str:
    """Return the report; no local values, no secrets of the command line, the home folder as `~`."""
    lines = (
        f"fdl {__version__}",
        f"python {platform.python_version()} ({sys.executable})",
        f"platform {platform.platform()}",
        f"arguments {list(masked(arguments))!r}",
        f"working folder {_working_folder()}",
        "",
        "".join(traceback.format_exception(problem)),
    )
    text = "\n".join(lines)
    # An error often quotes the argument that it is about.
    for word, shown in zip(arguments, masked(arguments), strict=True):
        secret = word.removeprefix(shown.removesuffix(_MASK)) if shown.endswith(_MASK) else ""
        if len(secret) > 3:
            text = text.replace(secret, _MASK)
    text = _CREDENTIALS.sub(f"{_MASK}@", text)
    return text.replace(home, "~") if home not in ("", "/") else text


def write_report(text: str, folder: Path) -> Path | None:
    """Store a report under the folder, else in the temporary directory, else nowhere.

    Only its owner may read it: a traceback quotes what the program was given.
    """
    import tempfile

    name = f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}.txt"
    for place in (folder, Path(tempfile.gettempdir())):
        try:
            place.mkdir(parents=True, exist_ok=True)
            path = place / name
            # A new file: an existing link in the temporary directory could lead elsewhere.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
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
