"""Values of a loop that one call puts together, however the loop is written.

Before: outs = []; for m in self.layers: outs.append(m(x)); return torch.stack(outs, 1)
After:  torch.stack([m(x) for m in self.layers], 1)
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.ir.expressions import Expr, count_name, inside_scope, names_read, substitute
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.statements import SIMPLE, Block, Stmt, bound_names, expressions, statements
from fdl_cli.porter.rewrite.effects import effects

_MERGES = {
    "torch.cat": "Cat", "torch.concat": "Cat", "torch.concatenate": "Cat", "torch.stack": "Stack",
}  # fmt: skip
_DIMENSIONS = {(), ("",), ("dim",), ("axis",)}
_MOST_BETWEEN = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A loop whose values are collected in a list, and the call that puts them together.

    `node` is that call, in the last statement of the tail. The last `count` statements belong to all
    this, `earlier` are those before them. `between` lie between the list and its loop, and stay;
    `loop` are the places of the loop and of its list, which is gone if something is in between.
    In every round `lead` is done, then `element` is collected.
    """

    node: Expr
    merge: str
    dim: Expr
    target: Expr
    iterable: Expr
    element: Expr
    count: int = 1
    name: str = ""
    between: Block = ()
    loop: tuple[Span, ...] = ()
    lead: Block = ()
    earlier: Block = ()


def collected(tail: Block, live: frozenset[str]) -> Collected | None:
    """Return the result that the last statement makes of the values of a loop."""
    last = tail[-1]
    if last.op not in {"assign", "return", "expr"} or len(last.exprs) != 1:
        return None
    for node, merge, items, dim in _merges(last.exprs[0]):
        if items.op == "comprehension":
            found = _comprehension(items, node, merge, dim)
            return found and replace(found, earlier=tail[:-1])
        if items.op == "name" and _is_consumed(last, node, items.name, live):
            return _loop(tail, live, Collected(
                node=node, merge=merge, dim=dim, name=items.name, target=items, iterable=items,
                element=items,
            ))  # fmt: skip
    return None


def swapped(expr: Expr, old: Expr, new: Expr) -> Expr:
    """Return the expression with another node in the place of one of its nodes."""
    if expr is old:
        return new
    parts = tuple(swapped(part, old, new) for part in expr.parts)
    same = all(one is two for one, two in zip(parts, expr.parts, strict=True))
    return expr if same else replace(expr, parts=parts)


def _merges(expr: Expr) -> Iterator[tuple[Expr, str, Expr, Expr]]:
    """Yield the calls that put a list together: the call, its name, the list and the dimension."""
    if expr.op in {"lambda", "comprehension", "format", "other"}:
        return
    for part in expr.parts:
        yield from _merges(part)
    if expr.op != "call" or len(expr.parts) < 2 or expr.labels[0] != "":
        return
    callee, items, *rest = expr.parts
    zero = Expr(op="constant", name="0", kind="python")
    if callee.op == "name" and callee.name == "sum" and not callee.dotted and not rest:
        yield expr, "sum", items, zero
    elif expr.role == "torch" and callee.dotted in _MERGES and expr.labels[1:] in _DIMENSIONS:
        yield expr, _MERGES[callee.dotted], items, rest[0] if rest else zero


def _is_consumed(last: Stmt, node: Expr, name: str, live: frozenset[str]) -> bool:
    """Return True if the list is for this call alone, which is the first thing the statement does."""
    order, own = list(effects(last.exprs[0])), list(effects(node))
    gone = name not in live or name in bound_names(last)
    read = sum(count_name(expr, name) for expr in (*last.exprs, *last.targets))
    rebound = sum(target.op == "name" and target.name == name for target in last.targets)
    return gone and read - rebound == 1 and order[: len(own)] == own


def _comprehension(items: Expr, node: Expr, merge: str, dim: Expr) -> Collected | None:
    # A generator would compute one value after the other is summed up: another order.
    if items.name != "list" or items.labels != ("in", "for", ""):
        return None
    iterable, target, element = items.parts
    return Collected(
        node=node, merge=merge, dim=dim, target=target, iterable=iterable, element=element
    )


def _loop(tail: Block, live: frozenset[str], found: Collected) -> Collected | None:
    """Complete the known parts with the loop or the comprehension before the last statement."""
    if len(tail) < 2:
        return None
    loop, last = tail[-2:]
    if loop.op == "assign" and _is_list_of(loop, found.name, "comprehension"):
        made = _comprehension(loop.exprs[0], found.node, found.merge, found.dim)
        return made and replace(
            made, name=found.name, count=2, loop=loop.sources, earlier=tail[:-2]
        )
    if loop.op != "for" or loop.orelse or not loop.body:
        return None
    start = _list_start(tail, found.name)
    read = frozenset().union(*map(names_read, last.exprs))
    *lead, end = folded(loop.body, (live - bound_names(last)) | read)
    element = _appended(end, found.name)
    if start is None or element is None:
        return None
    parts = (*(expr for stmt in lead for expr in stmt.exprs), element, *loop.exprs)
    if any(count_name(part, found.name) for part in parts) or not _is_plain(lead):
        return None
    if names_read(loop.targets[0]) & (live | read):
        return None
    between = tail[start + 1 : -2]
    return replace(
        found, target=loop.targets[0], iterable=loop.exprs[0], element=element, lead=tuple(lead),
        count=len(tail) - start, between=between, earlier=tail[:start],
        loop=loop.sources if between else (*tail[start].sources, *loop.sources),
    )  # fmt: skip


def _is_list_of(stmt: Stmt, name: str, op: str) -> bool:
    single = stmt.op == "assign" and len(stmt.targets) == 1 and stmt.targets[0].op == "name"
    return single and stmt.targets[0].name == name and stmt.exprs[0].op == op


def _list_start(tail: Block, name: str) -> int | None:
    """Return where the list is made, empty; other statements may lie before its loop."""
    lowest = max(0, len(tail) - 3 - _MOST_BETWEEN)
    for at in range(len(tail) - 3, lowest - 1, -1):
        stmt = tail[at]
        if _is_list_of(stmt, name, "list"):
            return at if not stmt.exprs[0].parts else None
        used = any(expr.op == "name" and expr.name == name for expr in expressions((stmt,)))
        if used:
            return None
    return None


def _appended(stmt: Stmt, name: str) -> Expr | None:
    """Return the value that `outs.append(value)` or `outs += [value]` adds to the list."""
    value = stmt.exprs[0] if len(stmt.exprs) == 1 else None
    if value is None:
        return None
    if stmt.op == "augment" and stmt.name == "+" and value.op == "list" and len(value.parts) == 1:
        target = stmt.targets[0]
        return value.parts[0] if target.op == "name" and target.name == name else None
    if stmt.op != "expr" or value.op != "call" or len(value.parts) != 2:
        return None
    callee = value.parts[0]
    own = callee.op == "attribute" and callee.name == "append" and callee.parts[0].name == name
    return value.parts[1] if own and value.labels == ("",) else None


def folded(body: Block, wanted: frozenset[str]) -> Block:
    """Put every value of a round that is read once, by the next statement, into its place there.

    `wanted` is read after the loop.
    """
    done: list[Stmt] = []
    for stmt in body:
        joint = _joined(done[-1], stmt, body, wanted) if done else None
        if joint is not None:
            done.pop()
        done.append(joint or stmt)
    return tuple(done)


def _joined(first: Stmt, stmt: Stmt, body: Block, wanted: frozenset[str]) -> Stmt | None:
    single = first.op == "assign" and len(first.targets) == 1 and first.targets[0].op == "name"
    if not single or stmt.op not in SIMPLE or len(stmt.exprs) != 1:
        return None
    name, value = first.targets[0].name, first.exprs[0]
    reads = sum(expr.op == "name" and expr.name == name for expr in expressions(body))
    bindings = sum(name in bound_names(one) for one in statements(body))
    if name in wanted or bindings != 1 or reads - bindings != 1:
        return None
    if count_name(stmt.exprs[0], name) != 1 or inside_scope(stmt.exprs[0], name):
        return None
    joint = substitute(stmt.exprs[0], name, value)
    if list(effects(joint)) != [*effects(value), *effects(stmt.exprs[0])]:
        return None
    return replace(stmt, exprs=(joint,))


def _is_plain(lead: list[Stmt]) -> bool:
    return all(stmt.op == "assign" for stmt in statements(tuple(lead)))
