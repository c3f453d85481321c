"""Check of a written port against its source, by other means than those that wrote it."""

import ast
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache

import libcst

from fdl_cli.porter.emit.apply import Patch
from fdl_cli.porter.parse.reader import SourceFile


def find_faults(
    source: SourceFile, made: libcst.Module, after: str, patches: Sequence[Patch]
) -> tuple[str, ...]:
    """Return the problem of a port: it must parse, and keep all comments and other text.

    `after` is the text of `made`, which takes a while to render.
    """
    faults = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(after)
    except (SyntaxError, ValueError, RecursionError) as problem:
        faults.append(f"the port would not be valid Python: {problem}")
    if _loses_comments(source.module, made):
        faults.append("a comment would be lost")
    if _unpatched(after, patches) != source.text:
        faults.append("text outside the edits would change")
    return tuple(faults)


def _loses_comments(before: libcst.Module, after: libcst.Module) -> bool:
    # A statement that no edit touches is the same object in both trees.
    old = {id(statement) for statement in before.body}
    new = {id(statement) for statement in after.body}
    gone = [each for each in before.body if id(each) not in new]
    come = [each for each in after.body if id(each) not in old]
    return not Counter(_comments(gone)) <= Counter(_comments(come))


def _comments(statements: Sequence[libcst.CSTNode]) -> Iterator[str]:
    """Yield the comments of a tree; a visitor would rebuild every node on its way."""
    waiting: list[object] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, libcst.Comment):
            yield node.value
        elif isinstance(node, libcst.CSTNode):
            waiting += [getattr(node, name) for name in _fields(type(node))]
        elif isinstance(node, list | tuple):
            waiting += node


@cache
def _fields(kind: type[libcst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _unpatched(after: str, patches: Sequence[Patch]) -> str:
    """Take the patches back: the text between them must be unchanged."""
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
