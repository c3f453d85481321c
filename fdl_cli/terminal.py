"""Colour, width and whether prompts are possible, from flags, environment and streams."""

import os
from collections.abc import Mapping
from typing import Literal, TextIO

ColorWish = Literal["auto", "always", "never"]

DEFAULT_WIDTH = 100
NARROWEST = 20


def wants_color(wish: ColorWish, environ: Mapping[str, str], stream: TextIO) -> bool:
    """Return True if this stream gets colour.

    An explicit flag wins over `NO_COLOR`, which wins over `FORCE_COLOR` and
    `CLICOLOR_FORCE`, which win over `TERM=dumb` and over what the stream is.
    """
    if wish != "auto":
        return wish == "always"
    if environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if environ.get(name, "0") not in ("", "0"):
            return True
    return environ.get("TERM") != "dumb" and is_terminal(stream)


def line_width(environ: Mapping[str, str], stream: TextIO) -> int:
    """Return how many columns a line may have: `COLUMNS`, else the terminal, else 100."""
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(NARROWEST, int(columns))
    try:
        return max(NARROWEST, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def may_ask(environ: Mapping[str, str], stdin: TextIO | None, stderr: TextIO | None) -> bool:
    """Return True if a prompt is possible: two terminals, no CI, input not forbidden."""
    if environ.get("FDL_NO_INPUT") or environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    return is_terminal(stdin) and is_terminal(stderr)


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if a stream is a terminal; a closed or missing stream is none."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def point_at_nothing(descriptor: int) -> None:
    """Point a stream's descriptor at nothing, so that Python's last flush cannot fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
