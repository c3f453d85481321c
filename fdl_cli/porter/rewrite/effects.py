"""The order in which a piece of code does things: it must never change."""

from collections.abc import Iterator
from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, place
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.statements import Stmt
from fdl_cli.porter.rewrite.stages import is_choice

_QUIET = frozenset({"name", "constant", "tuple", "list", "slice", "starred", "attribute"})
_WITH_STAGES = frozenset({"also", "also_with", "merge", "scan", "map", "switch"})


def effects(expr: Expr) -> Iterator[Span]:
    """Yield the places of everything that computes, in evaluation order."""
    if expr.op == "also" and len(expr.parts) > 2:
        # `x.also(stage, y)`: y is there before the stage runs.
        yield from effects(expr.parts[0])
        for part in expr.parts[2:]:
            yield from effects(part)
        yield from _stage_effects(expr.parts[1])
    elif expr.op == "through" and is_choice(expr.parts[1]):
        yield from effects(expr.parts[0])
        yield from _stage_effects(expr.parts[1])
        return
    elif expr.op in _WITH_STAGES:
        yield from effects(expr.parts[0])
        for part in expr.parts[1:]:
            yield from _stage_effects(part)
    else:
        for part in expr.parts:
            yield from effects(part)
    at = place(expr)
    if (expr.op not in _QUIET or expr.role == "state") and at is not None:
        yield at


def _stage_effects(stage: Expr) -> Iterator[Span]:
    if stage.op == "tuple" and stage.span is None:
        for part in stage.parts:
            yield from _stage_effects(part)
    elif stage.op == "conditional":
        yield from effects(stage.parts[0])
        yield from _stage_effects(stage.parts[1])
        yield from _stage_effects(stage.parts[2])
        at = place(stage)
        if at is not None:
            yield at
    elif stage.origin is not None:
        # The call of the stage comes after whatever finding the stage takes.
        yield from effects(replace(stage, origin=None))
        yield stage.origin
    else:
        yield from effects(stage)


def statement_effects(stmt: Stmt) -> Iterator[Span]:
    """Yield the effects of a statement and of its parts."""
    for expr in stmt.exprs:
        yield from effects(expr)
    for target in stmt.targets:
        at = place(target)
        if target.op in {"attribute", "index"} and at is not None:
            yield at
    for inner in (*stmt.body, *stmt.orelse):
        yield from statement_effects(inner)
    if stmt.op == "if":
        yield stmt.sources[0]
