"""The text of `fdl --help`, made without importing any command."""

import textwrap
from collections.abc import Sequence

from fdl_cli.commands.registry import LISTED, find

_OPTIONS: tuple[tuple[str, str], ...] = (
    ("-h, --help", "show this, or the help of a command"),
    ("--version", "show the version"),
    ("-v, -vv", "say more"),
    ("-q, --quiet", "only data and errors"),
    ("--json", "print one JSON document on stdout"),
    ("--color WHEN", "auto, always or never (also --ansi, --no-ansi)"),
    ("--no-input", "never ask a question"),
)


def overview(width: int, tasks: Sequence[tuple[str, str]] = ()) -> str:
    """Return the overview of all commands and of the project's tasks, wrapped to the width."""
    lines = [
        "Usage: fdl [OPTIONS] COMMAND [ARGUMENTS]",
        "",
        *textwrap.wrap("Flow graphs for PyTorch: port a script, prove it equal, run it.", width),
    ]
    if tasks:
        # A command wins over a task of its name, which `fdl run` reaches.
        shown = [(f"run {name}" if find(name) else name, text) for name, text in tasks]
        widest = max(len(name) for name, _ in shown)
        lines += ["", "Tasks of this project:", *_rows(shown, widest, width)]
    column = max(len(text) for text in (*(e.name for e in LISTED), *(o[0] for o in _OPTIONS)))
    for section in dict.fromkeys(entry.section for entry in LISTED):
        rows = [(entry.name, entry.summary) for entry in LISTED if entry.section == section]
        lines += ["", f"{section}:", *_rows(rows, column, width)]
    lines += ["", "Options:", *_rows(_OPTIONS, column, width)]
    lines += ["", "See also `fdl COMMAND --help` and `fdl help exit-codes`."]
    return "\n".join(lines)


def _rows(rows: Sequence[tuple[str, str]], column: int, width: int) -> list[str]:
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(20, width - column - 4)) or [""]
        lines.append(f"  {name:{column}}  {wrapped[0]}")
        lines += [f"  {'':{column}}  {more}" for more in wrapped[1:]]
    return lines
