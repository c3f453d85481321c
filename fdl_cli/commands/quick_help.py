"""`fdl COMMAND --help` from a text that was remembered, with next to no imports.

The library that reads options takes most of the time of a help page, and the page changes only with
the source: whatever of it changes, the remembered texts are not believed any more.
"""

import json
import os
from collections.abc import Mapping

from fdl_cli import __version__
from fdl_cli.apiref.quick import quick_cache
from fdl_cli.commands.registry import find
from fdl_cli.terminal import line_width

_HELP = ("--help", "-h")
# Help pages are never wider, however wide the terminal is.
_WIDEST = 80


def quick_help(words: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    """Return the remembered help page for these words; nothing for all else."""
    path = _path(words, environ)
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            stored = json.load(stream)
        text = stored["text"]
        return text if isinstance(text, str) and stored["state"] == source_state() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember_help(words: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Remember the page that was shown the long way; where that is impossible it only costs time."""
    path = _path(words, environ)
    if path is None:
        return
    from pathlib import Path

    from fdl_cli.commands.execution import help_of
    from fdl_cli.system.atomic import write_whole

    text = help_of(words[:-1])
    try:
        if text is not None:
            document = {"state": source_state(), "text": text}
            write_whole(Path(path), json.dumps(document).encode())
    except OSError:
        return


def source_state() -> str:
    """Return a text that changes whenever a module of `fdl` does."""
    newest = count = total = 0
    pending = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in ("__pycache__", "data", "_assets"):
                        pending.append(entry.path)
                elif entry.name.endswith(".py"):
                    facts = entry.stat()
                    newest = max(newest, facts.st_mtime_ns)
                    total += facts.st_size
                    count += 1
    return f"{__version__} {newest} {count} {total}"


def _path(words: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    """Return the path of the remembered page for words that request help."""
    import sys

    if not 2 <= len(words) <= 3 or words[-1] not in _HELP or find(words[0]) is None:
        return None
    folder = quick_cache(environ)
    if folder is None or not all(word.replace("-", "").isalnum() for word in words[:-1]):
        return None
    width = min(line_width(environ, sys.stdout), _WIDEST)
    return os.path.join(folder, "help", f"{' '.join(words[:-1])} {width}.json".replace(" ", "_"))
