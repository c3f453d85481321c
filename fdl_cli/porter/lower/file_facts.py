"""Imports of a file with their places and targets, and the names that the file uses."""

import ast
from itertools import takewhile

from fdl_cli.porter.lower.names import Names, module_level
from fdl_cli.porter.parse.reader import SourceFile


def flodl_names(names: Names) -> tuple[tuple[str, str], ...]:
    """Return the names of our runtime that the file imports already, each with its alias."""
    pairs = ((dotted, alias) for alias, dotted in names.aliases.items())
    return tuple((dotted[6:], alias) for dotted, alias in pairs if dotted.startswith("flodl."))


def imports_torch(names: Names) -> bool:
    """Return True if the file imports torch, or a part of it."""
    modules = [*names.aliases.values(), *names.stars]
    return any(module == "torch" or module.startswith("torch.") for module in modules)


def used_names(tree: ast.Module) -> frozenset[str]:
    """Return every name that the file uses or binds anywhere."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.arg():
                found.add(node.arg)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.alias():
                found.add(node.asname or node.name.partition(".")[0])
            case _:
                pass
    return frozenset(found)


def import_place(source: SourceFile) -> int:
    """Return where our import goes: after the torch imports, else after the last import.

    Only imports above the first definition count: a later one may be too late for a class.
    """
    head = list(takewhile(lambda node: not _defines(node), source.tree.body))
    best: ast.stmt | None = None
    for node in head:
        torch_import = isinstance(node, ast.Import | ast.ImportFrom) and _names_torch(node)
        if torch_import:
            best = node
    if best is None:
        imports = [n for n in head if isinstance(n, ast.Import | ast.ImportFrom | ast.Try)]
        tries = [n for n in head if isinstance(n, ast.Try | ast.If)]
        guarded = [n for n in tries if any(_is_import(inner) for inner in module_level([n]))]
        candidates = sorted([*imports, *guarded], key=lambda n: n.lineno)
        best = candidates[-1] if candidates else None
    if best is None:
        body = source.tree.body
        first = body[0] if body else None
        docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        best = first if docstring else None
    if best is None:
        return 0
    return source.next_line(source.span(best).end)


def _defines(node: ast.stmt) -> bool:
    """Return True if a statement is, or may build, something that is ported."""
    if isinstance(node, ast.Assign):
        return any(
            isinstance(inner, ast.Attribute | ast.Name)
            and (inner.attr if isinstance(inner, ast.Attribute) else inner.id) == "Sequential"
            for inner in ast.walk(node.value)
        )
    return isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _names_torch(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and (node.module or "").partition(".")[0] == "torch"
    return any(item.name.partition(".")[0] == "torch" for item in node.names)


def starts(tree: ast.Module) -> bool:
    """Return True if running the file does more than define names."""
    return any(_acts(node) for node in tree.body)


def _acts(node: ast.stmt) -> bool:
    if isinstance(node, ast.If | ast.For | ast.While | ast.With):
        return any(isinstance(item, ast.Call) for item in ast.walk(node))
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def forward_through_class(tree: ast.Module, name: str) -> int | None:
    """Return where `Class.forward` of a class is read without an object, if anywhere."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr="forward") if owner == name:
                return node.lineno
    return None
