"""Sums at the end of a block, with both sides as branches of one value, in the order of the sum."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.rewrite.method_chain import replace_on_spine, spine
from fdl_cli.porter.rewrite.pattern import Match
from fdl_cli.porter.rewrite.stages import Branch, branch
from fdl_cli.porter.rewrite.window import Window, open_window

_MAX_WINDOW = 6


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """`expr` adds two branches of the variable `start`, in this order."""

    expr: Expr
    start: Expr
    branches: tuple[Branch, Branch]


def match_addition(
    tail: Block, live: frozenset[str], write: Callable[[Addition], Expr | None]
) -> Match | None:
    """Look for a sum in the last statements and let `write` replace it."""
    window = open_window(tail, live)
    while window is not None and window.count <= _MAX_WINDOW:
        found = _in_window(window, write)
        if found is not None:
            return found
        window = window.wider()
    return None


def _in_window(window: Window, write: Callable[[Addition], Expr | None]) -> Match | None:
    nodes = spine(window.value)
    for index, node in reversed(list(enumerate(nodes))):
        if node.op != "binary" or node.name != "+":
            continue
        if index and _is_longer_sum(nodes[index - 1], node):
            continue
        addition = _reading(node)
        word = None if addition is None else write(addition)
        if word is None:
            continue
        result = replace_on_spine(window.value, node, word)
        if window.keeps_order(result):
            return Match(count=window.count, stmt=window.finish(result))
    return None


def _is_longer_sum(outer: Expr, inner: Expr) -> bool:
    """Return True if three or more branches of one value are added: no pair of them is special."""
    if outer.op != "binary" or outer.name != "+" or outer.parts[0] is not inner:
        return False
    ways = [branch(part) for part in (*inner.parts, outer.parts[1])]
    return all(way is not None and way.stages for way in ways)


def _reading(node: Expr) -> Addition | None:
    left, right = (branch(part) for part in node.parts)
    if left is None or right is None or left.head != right.head:
        return None
    start = Expr(op="name", name=left.head, kind="flow")
    return Addition(expr=node, start=start, branches=(left, right))
