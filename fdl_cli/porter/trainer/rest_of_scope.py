"""Readers of a loop's names in the rest of a program, once the loop is a set of functions."""

import ast
from collections.abc import Iterator

from fdl_cli.porter.lower.names import FunctionNode
from fdl_cli.porter.trainer.loop_place import LoopPlace
from fdl_cli.porter.trainer.scope_names import mentioned, own_nodes, read_by_function


def later_mentions(place: LoopPlace, top: ast.For) -> set[str]:
    """Return the names that code outside of a loop may look at during the loop or after it."""
    found = mentioned(_after(place.scope, top))
    for node in ast.walk(place.scope):
        if node is place.scope or _within(node, top):
            continue
        if isinstance(node, FunctionNode):
            found |= read_by_function(node)
        elif isinstance(node, ast.Lambda):
            found |= mentioned([node.body])
    return found


def _after(scope: ast.Module | FunctionNode, top: ast.For) -> Iterator[ast.AST]:
    """Yield the code after the loop; in another loop around it, the code before as well."""
    around = any(
        isinstance(node, ast.For | ast.While) and node is not top and _within(top, node)
        for node in own_nodes(scope)
    )
    for node in own_nodes(scope):
        if not isinstance(node, ast.Name) or _within(node, top):
            continue
        if around or node.lineno > (top.end_lineno or 0):
            yield node


def _within(node: ast.AST, outer: ast.AST) -> bool:
    first, last = vars(node).get("lineno", 0), vars(node).get("end_lineno") or 0
    return bool(vars(outer)["lineno"] <= first and last <= vars(outer)["end_lineno"])
