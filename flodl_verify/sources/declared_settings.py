"""Settings as a program's own command line declares them: `add_argument("--width", default=64)`."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from flodl_verify.sources.project_files import texts_with, with_own
from flodl_verify.sources.shown_commands import shown_settings
from flodl_verify.sources.written_settings import written_settings

UNKNOWN = object()  # a value that only a run could tell


def program_settings(
    file: Path, folders: tuple[Path, ...], wanted: frozenset[str]
) -> tuple[dict[str, object], ...]:
    """Return settings of the project's program, likeliest first: as a command for the file, by default."""
    declared = declared_settings(file, folders, wanted)
    if not declared:
        return ()
    shown = [
        {**declared, **values}
        for values in shown_settings(file, folders, wanted, declared)
        if any(values[name] != declared[name] for name in wanted & values.keys())
    ]
    return (*shown, declared)


def known_settings(
    file: Path, folders: tuple[Path, ...], wanted: frozenset[str]
) -> tuple[dict[str, object], ...]:
    """Return settings of the program and of files of the project, first those that know most names."""
    found = (
        *program_settings(file, folders, wanted),
        *written_settings(file, folders, wanted),
    )
    return tuple(sorted(found, key=lambda each: -len(wanted & each.keys())))


@functools.lru_cache(maxsize=64)
def declared_settings(
    file: Path, folders: tuple[Path, ...], wanted: frozenset[str]
) -> dict[str, object]:
    """Return the defaults of the command line in the project that knows most of the names.

    One that knows less than half of them is that of another program: nothing is returned then.
    """
    best: dict[str, object] = {}
    files = with_own(file, folders)
    for _, text in texts_with(b"add_argument(", files):
        found = _defaults(text)
        if len(wanted & found.keys()) > len(wanted & best.keys()):
            best = found
    return best if 2 * len(wanted & best.keys()) >= len(wanted) else {}


def _defaults(text: bytes) -> dict[str, object]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="add_argument")):
                name = _name(node)
                value = _default(node)
                if name and value is not UNKNOWN:
                    found.setdefault(name, value)
            case _:
                pass
    return found


def _name(call: ast.Call) -> str:
    """Return the attribute that an argument is stored as: its first long name, or `dest`."""
    names = [
        item.value
        for item in call.args
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
    dest = literal_of(_keyword(call, "dest"))
    if isinstance(dest, str):
        return dest
    long = [item for item in names if item.startswith("--")]
    return (long or names or [""])[0].lstrip("-").replace("-", "_")


def _default(call: ast.Call) -> object:
    action = literal_of(_keyword(call, "action"))
    given = _keyword(call, "default")
    if given is not None:
        return literal_of(given)
    if action in {"store_true", "store_false"}:
        return action == "store_false"
    choices = literal_of(_keyword(call, "choices"))
    if isinstance(choices, list | tuple) and choices:
        return choices[0]
    return UNKNOWN


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((item.value for item in call.keywords if item.arg == name), None)


def literal_of(node: ast.expr | None) -> object:
    """Return the value of a literal, or that it is not known."""
    if node is None:
        return UNKNOWN
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
