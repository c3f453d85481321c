"""Arguments of constructor calls in a project, as far as its settings and literals tell them.

Example: a script, whose command line declares `--count 3` and `--width 16`.

    net = Discriminator(args.count, args.width, 4, length=len(data))

    Discriminator(count, width, layers, length)   {"count": 3, "width": 16, "layers": 4}

The length of the data is not known, so it is left to the guesses. A call of which less than half of the
arguments are known is none.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import torch

from flodl_verify.sources.declared_settings import UNKNOWN, known_settings, literal_of
from flodl_verify.sources.project_files import texts_with, with_own

_CHOICES: Final = 3
_MOST_FILES: Final = 20  # that have such a call
_MODULES: Final[Mapping[str, object]] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}


def called_arguments(
    file: Path, folders: tuple[Path, ...], name: str, parameters: Sequence[str]
) -> list[dict[str, object]]:
    """Return arguments by name of the calls of a class, first of those of which most is known.

    Args:
        file: the file of the class.
        folders: those of the project.
        name: the name of the class.
        parameters: its parameters in order.
    """
    found: list[tuple[int, dict[str, object]]] = []
    files = with_own(file, folders)
    for count, (path, text) in enumerate(texts_with(name.encode() + b"(", files)):
        if count == _MOST_FILES:
            break
        for call, around in _calls(text, name):
            scope = _Scope(path, folders, around)
            given = _bound(call, parameters)
            values = {key: scope.value(node) for key, node in given.items()}
            known = {key: each for key, each in values.items() if each is not UNKNOWN}
            if known and 2 * len(known) >= len(given) and known not in [each for _, each in found]:
                found.append((len(given) - len(known), known))
    return [known for _, known in sorted(found, key=lambda each: each[0])[:_CHOICES]]


@functools.lru_cache(maxsize=64)
def _calls(text: bytes, name: str) -> tuple[tuple[ast.Call, tuple[ast.AST, ...]], ...]:
    """Return the calls of a class with arguments, each with the file and the functions around it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found: list[tuple[ast.Call, tuple[ast.AST, ...]]] = []

    def visit(node: ast.AST, around: tuple[ast.AST, ...]) -> None:
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else None
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called == name:
                found.append((node, around))
        inner = (*around, node) if isinstance(node, ast.FunctionDef | ast.Module) else around
        for each in ast.iter_child_nodes(node):
            visit(each, inner)

    visit(tree, ())
    return tuple(found)


def _bound(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr]:
    """Return the expression of each parameter, as far as stars do not hide it."""
    found: dict[str, ast.expr] = {}
    for name, node in zip(parameters, call.args, strict=False):
        if isinstance(node, ast.Starred):
            break
        found[name] = node
    named = {each.arg: each.value for each in call.keywords if each.arg in parameters}
    return found | {name: node for name, node in named.items() if name is not None}


@final
class _Scope:
    """The values of expressions in one call."""

    def __init__(self, file: Path, folders: tuple[Path, ...], around: tuple[ast.AST, ...]) -> None:
        self._file, self._folders = file, folders
        self._literals: dict[str, ast.expr | None] = {}
        for each in around:
            self._literals |= _assigned(each)
        self._read = _names_by_owner(around[-1]) if around else {}

    def value(self, node: ast.expr) -> object:
        """Return the value of an expression, or that it is not known."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name):
                bound = self._literals.get(name)
                return UNKNOWN if bound is None else literal_of(bound)
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(owner, name)
            case ast.Subscript(value=ast.Name() as owner, slice=ast.Constant(value=str(name))):
                return self._setting(ast.unparse(owner), name)
            case ast.Tuple() | ast.List():
                inner = [self.value(each) for each in node.elts]
                known = all(each is not UNKNOWN for each in inner)
                made = tuple(inner) if isinstance(node, ast.Tuple) else inner
                return made if known else UNKNOWN
            case ast.BinOp(left=left, op=kind, right=right):
                return _combined(_OPERATORS.get(type(kind)), self.value(left), self.value(right))
            case _:
                return literal_of(node)

    def _attribute(self, owner: ast.expr, name: str) -> object:
        path = ast.unparse(owner)
        first, *rest = path.split(".")
        if first in _MODULES and all(each.isidentifier() for each in rest):
            found: Any = _MODULES[first]
            for each in (*rest, name):
                found = getattr(found, each, UNKNOWN)
            return found
        return self._setting(path, name)

    def _setting(self, owner: str, name: str) -> object:
        names = frozenset(self._read.get(owner, {name}))
        for settings in known_settings(self._file, self._folders, names)[:1]:
            value = settings.get(name)
            return UNKNOWN if value is None else value
        return UNKNOWN


def _assigned(around: ast.AST) -> dict[str, ast.expr | None]:
    """Return what the statements of a file or a function assign; nothing for what they assign twice."""
    found: dict[str, ast.expr | None] = {}
    for node in vars(around).get("body", ()):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = None if target.id in found else node.value
    return found


def _names_by_owner(around: ast.AST) -> dict[str, set[str]]:
    """Return the names that code reads from each object, by attribute and by key."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(around):
        match node:
            case ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr=name):
                found.setdefault(ast.unparse(owner), set()).add(name)
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(name))):
                found.setdefault(owner, set()).add(name)
            case _:
                pass
    return found


def _combined(act: Callable[[Any, Any], Any] | None, left: object, right: object) -> object:
    is_number = all(type(each) in (int, float) for each in (left, right))
    if act is None or not is_number:
        return UNKNOWN
    try:
        return act(left, right)
    except (ArithmeticError, ValueError):
        return UNKNOWN
