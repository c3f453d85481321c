"""Residual sums of values that have names: the earlier value, also the later one.

Before: if self.residual: x = identity + x
After:  if self.residual: x = identity.also(x)

A sum that is written the other way round, or as `x += identity`, is another one: the result has the
strides of its first operand, and `+=` keeps the memory and the dtype of `x`.
"""

from dataclasses import replace
from typing import final

from fdl_cli.porter.ir.expressions import Expr, place, rebuilt
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.rewrite.chain import says_skip
from fdl_cli.porter.rewrite.def_use import Lineage, Lineages
from fdl_cli.porter.rewrite.effects import effects


def join_residuals(block: Block, params: tuple[str, ...]) -> Block:
    """Write every sum of a value and one made of it with `also`."""
    return _Joiner(params).block(block)


@final
class _Joiner:
    """Walks one method, with the lineage of its values at each place."""

    def __init__(self, params: tuple[str, ...]) -> None:
        self.lineages = Lineages(params)

    def block(self, block: Block) -> Block:
        """Return the block with its residual sums written out."""
        return tuple(self._statement(stmt) for stmt in block)

    def _statement(self, stmt: Stmt) -> Stmt:
        exprs = tuple(self._expression(expr) for expr in stmt.exprs)
        if any(new is not old for new, old in zip(exprs, stmt.exprs, strict=True)):
            stmt = replace(stmt, exprs=exprs)
        if not stmt.body and not stmt.orelse:
            self.lineages.bind(stmt)
            return stmt
        return self._compound(stmt)

    def _compound(self, stmt: Stmt) -> Stmt:
        if stmt.op in {"for", "while"}:
            self.lineages.enter_loop(stmt)
        before = dict(self.lineages.values)
        body = self.block(stmt.body)
        after_body = self.lineages.values
        self.lineages.values = before
        orelse = self.block(stmt.orelse)
        self.lineages.join(after_body)
        changed = zip((*body, *orelse), (*stmt.body, *stmt.orelse), strict=True)
        if all(new is old for new, old in changed):
            return stmt
        return replace(stmt, body=body, orelse=orelse)

    def _expression(self, expr: Expr) -> Expr:
        if expr.op in {"lambda", "comprehension", "format", "other"}:
            return expr
        inner = rebuilt(expr, tuple(self._expression(part) for part in expr.parts))
        if inner.op != "binary" or inner.name != "+":
            return inner
        return self._sum(inner) or inner

    def _sum(self, expr: Expr) -> Expr | None:
        left, right = expr.parts
        if left.kind != "flow" or right.kind != "flow":
            return None
        # The first operand decides about strides and types: it stays the first one.
        ways = (self.lineages.of(left), self.lineages.of(right))
        is_residual = _is_source(left, *ways) or _is_skip(left, *ways)
        return _also(expr, left, right) if is_residual else None


def _is_source(expr: Expr, own: Lineage, other: Lineage) -> bool:
    """Return True if the other value was made of this one, which is nothing but a name here."""
    return expr.op == "name" and bool(own.same & other.by_stage)


def _is_skip(expr: Expr, own: Lineage, other: Lineage) -> bool:
    """Return True if both values come from one, and this one is the skip by its name."""
    return (
        expr.op == "name"
        and says_skip(expr.name)
        and bool(own.all & other.all)
        and bool(other.by_stage | own.by_stage)
    )


def _also(expr: Expr, earlier: Expr, later: Expr) -> Expr | None:
    """Return the sum as `earlier.also(stage, ...)`, or of the value where it has several steps."""
    if later.op == "name" and earlier.op == "name" and later.name == earlier.name:
        return None
    starts = later.parts[0] if later.op == "through" else earlier
    if later.op == "through" and earlier.op == starts.op == "name" and earlier.name == starts.name:
        stage = replace(later.parts[1], origin=place(later))
        parts = (earlier, stage, *later.parts[2:])
        labels = ("", *later.labels)
    else:
        parts, labels = (earlier, later), ("",)
    made = Expr(op="also", parts=parts, labels=labels, kind="flow", origin=place(expr))
    return made if list(effects(made)) == list(effects(expr)) else None
