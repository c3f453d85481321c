"""The texts that code compares its names with: what an argument may say."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def texts_compared(tree: ast.AST, constants: Mapping[str, object]) -> dict[str, list[str]]:
    """Return texts by name: of `kind == "lstm"`, `args.kind in [LSTM, GRU]`, `{"lstm": ...}[kind]`.

    `constants` are the values of names that may stand for a text.
    """
    found: dict[str, list[str]] = {}
    texts = {name: value for name, value in constants.items() if isinstance(value, str)}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=[other]):
                items = (
                    other.elts if isinstance(other, ast.List | ast.Tuple | ast.Set) else [other]
                )
                _note(found, left, items, texts)
            case ast.Subscript(value=ast.Dict(keys=keys), slice=key):
                _note(found, key, keys, texts)
            case ast.Match(subject=subject, cases=cases):
                patterns = [item.pattern for item in cases]
                values = [p.value for p in patterns if isinstance(p, ast.MatchValue)]
                _note(found, subject, values, texts)
            case _:
                pass
    return found


def _note(
    found: dict[str, list[str]],
    name: ast.expr,
    items: list[ast.expr] | list[ast.expr | None],
    constants: Mapping[str, str],
) -> None:
    if isinstance(name, ast.Name):
        key = name.id
    elif isinstance(name, ast.Attribute):
        key = name.attr
    else:
        return
    texts: list[str] = []
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            texts.append(item.value)
        elif isinstance(item, ast.Name) and item.id in constants:
            texts.append(constants[item.id])
    if texts:
        found.setdefault(key, []).extend(texts)
