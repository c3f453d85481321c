"""Check a written port against its source, by other means than those that wrote it."""

import ast
import warnings

from fdl_cli.porter.emit.apply import Patch
from fdl_cli.porter.parse.reader import STRING_OR_COMMENT


def find_faults(before: str, after: str, patches: tuple[Patch, ...]) -> tuple[str, ...]:
    """Return what is wrong with a port: it must parse, and keep all comments and other text."""
    faults = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(after)
    except (SyntaxError, ValueError, RecursionError) as problem:
        faults.append(f"the port would not be valid Python: {problem}")
    if sorted(_comments(before)) != sorted(_comments(after)):
        faults.append("a comment would be lost")
    if _unpatched(after, patches) != before:
        faults.append("text outside the edits would change")
    return tuple(faults)


def _comments(text: str) -> list[str]:
    return [found.group() for found in STRING_OR_COMMENT.finditer(text) if found.group("comment")]


def _unpatched(after: str, patches: tuple[Patch, ...]) -> str:
    """Take the patches back: what is between them must be what it was."""
    pieces: list[str] = []
    at = 0
    shift = 0
    for patch in patches:
        start = patch.start + shift
        pieces += [after[at:start], patch.before]
        at = start + len(patch.text)
        shift += len(patch.text) - (patch.end - patch.start)
    pieces.append(after[at:])
    return "".join(pieces)
