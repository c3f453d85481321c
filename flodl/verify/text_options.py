"""The texts that code compares its names with: what an argument may say."""

from __future__ import annotations

import ast


def texts_compared(tree: ast.AST) -> dict[str, list[str]]:
    """Return texts by name: of `kind == "lstm"`, `args.kind in ["lstm", "gru"]`, `{"lstm": ...}[kind]`."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=[other]):
                items = (
                    other.elts if isinstance(other, ast.List | ast.Tuple | ast.Set) else [other]
                )
                _note(found, left, items)
            case ast.Subscript(value=ast.Dict(keys=keys), slice=key):
                _note(found, key, keys)
            case ast.Match(subject=subject, cases=cases):
                patterns = [item.pattern for item in cases]
                _note(found, subject, [p.value for p in patterns if isinstance(p, ast.MatchValue)])
            case _:
                pass
    return found


def _note(
    found: dict[str, list[str]], name: ast.expr, items: list[ast.expr] | list[ast.expr | None]
) -> None:
    if isinstance(name, ast.Name):
        key = name.id
    elif isinstance(name, ast.Attribute):
        key = name.attr
    else:
        return
    texts = [
        item.value
        for item in items
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
    if texts:
        found.setdefault(key, []).extend(texts)
