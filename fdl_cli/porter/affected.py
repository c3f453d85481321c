"""Proofs of a file that are void after some of its classes were rewritten.

Example:
    `Net` constructs `Block` through `make_layer`, `Loss` names neither. When `Block` is put back, the
    proof of `Net` used another `Block` and is void; the proof of `Loss` still holds.
"""

import ast
from collections.abc import Iterator, Mapping

from fdl_cli.porter.pipeline import Draft


def affected_classes(before: Draft, after: Draft) -> frozenset[str]:
    """Return the classes whose port differs between two drafts, and all that reach one of them by a name."""
    plans = {item.name: item for item in before.plan.classes}
    changed = {item.name for item in after.plan.classes if plans.get(item.name) != item}
    mentions = _mentions(after.source.tree)
    found = set(changed)
    grown = True
    while grown:
        reaching = {name for name, used in mentions.items() if used & found} - found
        found |= reaching
        grown = bool(reaching)
    return frozenset(found & {item.name for item in after.plan.classes})


def _mentions(tree: ast.Module) -> Mapping[str, frozenset[str]]:
    """Return for each name that a file defines which names its definitions use."""
    found: dict[str, frozenset[str]] = {}
    for names, node in _definitions(tree.body):
        used = frozenset(item.id for item in ast.walk(node) if isinstance(item, ast.Name))
        # Annotations and names that are looked up later may be texts.
        texts = frozenset(
            item.value
            for item in ast.walk(node)
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        )
        for name in names:
            found[name] = found.get(name, frozenset()) | used | texts
    return found


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[list[str], ast.stmt]]:
    """Yield the statements at the level of the module that define something, with its names."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield [name], node
            case ast.ClassDef(name=name):
                yield [name], node
            case _:
                stored = [
                    item.id
                    for item in ast.walk(node)
                    if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
                ]
                inner = [item for item in ast.iter_child_nodes(node) if isinstance(item, ast.stmt)]
                yield stored, node
                yield from _definitions(inner)
