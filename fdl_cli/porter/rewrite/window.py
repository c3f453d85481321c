"""The statements that lead up to one expression, put together into it.

Before: identity = x; out = self.conv(x); out = out + identity
After:  self.conv(x) + x, if nothing else reads `identity` and `out`
"""

from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.ir.expressions import (
    Expr,
    count_name,
    inside_scope,
    may_be_skipped,
    substitute,
)
from fdl_cli.porter.ir.statements import Block, Stmt, bound_names, read_names
from fdl_cli.porter.rewrite.effects import effects, statement_effects
from fdl_cli.porter.rewrite.method_chain import straighten
from fdl_cli.porter.rewrite.stages import is_setting

_PLAIN = frozenset({"name", "attribute", "constant", "compare", "boolean", "unary", "index"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The last `count` statements of a block, and their joint value so far.

    Invariant: the free names of `value` mean what they mean before the first of the statements.
    """

    tail: Block
    live: frozenset[str]
    count: int
    value: Expr

    @property
    def last(self) -> Stmt:
        """Return the statement that the window ends with."""
        return self.tail[-1]

    def wider(self) -> "Window | None":
        """Take in one more statement, or nothing when it must stay a statement."""
        if self.count >= len(self.tail):
            return None
        stmt = self.tail[-self.count - 1]
        definition = _definition(stmt)
        if definition is None:
            return None
        name, value = definition
        if name in self.live and name not in bound_names(self.last):
            return None
        if _read_by_targets(self.last, name):
            return None
        reads = count_name(self.value, name)
        if reads == 0 or inside_scope(self.value, name):
            return None
        if value.op != "name" and (reads > 1 or may_be_skipped(self.value, name)):
            return None
        joint = substitute(self.value, name, value)
        return replace(self, count=self.count + 1, value=joint)

    def keeps_order(self, result: Expr) -> bool:
        """Return True if a value has the effects of the statements, in the same order."""
        done = [span for stmt in self.tail[-self.count : -1] for span in statement_effects(stmt)]
        done += list(effects(self.last.exprs[0]))
        return done == list(effects(result))

    def finish(self, result: Expr) -> Stmt:
        """Return the one statement that stands for the window."""
        sources = tuple(span for stmt in self.tail[-self.count :] for span in stmt.sources)
        return replace(self.last, exprs=(straighten(result),), sources=sources)


def open_window(tail: Block, live: frozenset[str]) -> Window | None:
    """Start a window at the last statement of a block; an in-place operation stays a statement."""
    last = tail[-1]
    if last.op not in {"assign", "return"} or not last.exprs:
        return None
    if last.op == "assign" and len(last.targets) != 1:
        return None
    return Window(tail=tail, live=live, count=1, value=last.exprs[0])


def _definition(stmt: Stmt) -> tuple[str, Expr] | None:
    if stmt.op == "assign" and len(stmt.targets) == 1 and stmt.targets[0].op == "name":
        return stmt.targets[0].name, stmt.exprs[0]
    if stmt.op == "if":
        return choice(stmt)
    return None


def choice(stmt: Stmt) -> tuple[str, Expr] | None:
    """Read `if c: y = a` (`else: y = b`) as y = a if c else b."""
    test = stmt.exprs[0]
    if not is_setting(test) or len(stmt.body) != 1 or len(stmt.orelse) > 1:
        return None
    if not _is_plain(test):
        return None
    then = _definition(stmt.body[0])
    if then is None:
        return None
    name, value = then
    other: Expr | None = Expr(op="name", name=name, kind="flow")
    if stmt.orelse:
        definition = _definition(stmt.orelse[0])
        other = definition[1] if definition is not None and definition[0] == name else None
    if other is None:
        return None
    return name, Expr(
        op="conditional",
        parts=(test, value, other),
        kind="flow",
        origin=stmt.sources[0],
    )


def _is_plain(expr: Expr) -> bool:
    return expr.op in _PLAIN and all(_is_plain(part) for part in expr.parts)


def _read_by_targets(stmt: Stmt, name: str) -> bool:
    # `y[i] = value` reads y and i.
    return name in read_names(replace(stmt, exprs=()))
