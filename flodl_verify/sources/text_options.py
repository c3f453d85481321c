"""The texts and numbers that code compares its names with: possible values of an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

Option = str | int


def options_compared(tree: ast.AST, constants: Mapping[str, object]) -> dict[str, list[Option]]:
    """Return options by name: of `kind == "lstm"`, `depth in [18, 34]`, `TABLE[kind]` and the like.

    `constants` are the values of names that may stand for a text, or for a table whose keys choose.
    """
    found: dict[str, list[Option]] = {}
    listed = _lists(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=[ast.Name(id=name)]) if name in listed:
                _note(found, left, listed[name], constants, numbers=True)
            case ast.Compare(
                left=left, comparators=[ast.List() | ast.Tuple() | ast.Set() as other]
            ):
                _note(found, left, other.elts, constants, numbers=True)
            case ast.Compare(left=left, comparators=[other]):
                _note(found, left, [other], constants)
            case ast.Subscript(value=ast.Dict(keys=keys), slice=key):
                _note(found, key, keys, constants, numbers=True)
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                _note_keys(found, key, constants.get(name))
            case ast.Match(subject=subject, cases=cases):
                patterns = [item.pattern for item in cases]
                values = [p.value for p in patterns if isinstance(p, ast.MatchValue)]
                _note(found, subject, values, constants, numbers=True)
            case _:
                pass
    return found


def texts_compared(tree: ast.AST, constants: Mapping[str, object]) -> dict[str, list[str]]:
    """Return those of the options that are texts."""
    found = {
        name: [item for item in options if isinstance(item, str)]
        for name, options in options_compared(tree, constants).items()
    }
    return {name: texts for name, texts in found.items() if texts}


def _lists(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the lists that code writes down under a name."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Tuple() as items):
                found[name] = items.elts
            case _:
                pass
    return found


def _named(name: ast.expr) -> str:
    match name:
        case ast.Name(id=key) | ast.Attribute(attr=key):
            return key
        case _:
            return ""


def _note(
    found: dict[str, list[Option]],
    name: ast.expr,
    items: Iterable[ast.expr | None],
    constants: Mapping[str, object],
    *,
    numbers: bool = False,
) -> None:
    """Note texts, and whole numbers where several are listed: `n == 1` says nothing about `n`."""
    options: list[Option] = []
    for item in items:
        value: object = None
        if isinstance(item, ast.Constant):
            value = item.value
        elif isinstance(item, ast.Name):
            value = constants.get(item.id)
        if isinstance(value, str) or (numbers and type(value) is int):
            options.append(value)
    if options and _named(name):
        found.setdefault(_named(name), []).extend(options)


def _note_keys(found: dict[str, list[Option]], name: ast.expr, table: object) -> None:
    if isinstance(table, dict) and _named(name):
        options = [key for key in table if isinstance(key, str) or type(key) is int]
        if options and len(options) == len(table):
            found.setdefault(_named(name), []).extend(options)
