"""Check a written port against its source, by other means than those that wrote it."""

import ast
import warnings
from collections.abc import Sequence
from typing import final

import libcst

from fdl_cli.porter.emit.apply import Patch
from fdl_cli.porter.parse.reader import SourceFile


def find_faults(
    source: SourceFile, made: libcst.Module, patches: Sequence[Patch]
) -> tuple[str, ...]:
    """Return what is wrong with a port: it must parse, and keep all comments and other text."""
    faults = []
    after = made.code
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(after)
    except (SyntaxError, ValueError, RecursionError) as problem:
        faults.append(f"the port would not be valid Python: {problem}")
    if _comments_changed(source.module, made):
        faults.append("a comment would be lost")
    if _unpatched(after, patches) != source.text:
        faults.append("text outside the edits would change")
    return tuple(faults)


def _comments_changed(before: libcst.Module, after: libcst.Module) -> bool:
    # A statement that no edit touches is the same object in both trees.
    old = {id(statement) for statement in before.body}
    new = {id(statement) for statement in after.body}
    gone, come = _Comments(), _Comments()
    for statement in before.body:
        if id(statement) not in new:
            statement.visit(gone)
    for statement in after.body:
        if id(statement) not in old:
            statement.visit(come)
    return sorted(gone.found) != sorted(come.found)


@final
class _Comments(libcst.CSTVisitor):
    """The comments of a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def visit_Comment(self, node: libcst.Comment) -> bool:
        """Remember one."""
        self.found.append(node.value)
        return False


def _unpatched(after: str, patches: Sequence[Patch]) -> str:
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
