"""Helpers that are decorated and compute more than torch does: each call of one is one step.

Before: y = self.pairwise(a, b), with a `@staticmethod` that calls layers or other libraries
After:  y = a.through(self.pairwise, b)

A helper without an object cannot be a `@subflow`, so it stays as it is.
"""

from collections.abc import Callable
from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, rebuilt
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.ir.symbols import MethodIR, ScriptIR


def with_helper_steps(
    script: ScriptIR, is_undecorable: Callable[[MethodIR], bool]
) -> tuple[ScriptIR, frozenset[str]]:
    """Return the file with calls of such helpers as steps, and the names of the helpers."""
    steps: frozenset[str] = frozenset()
    while True:
        found = frozenset(
            method.name
            for model in script.models
            for method in model.methods
            if method.name not in steps
            and "property" not in method.decorators
            and is_undecorable(method)
        )
        if not found:
            return script, steps
        steps |= found
        models = (
            replace(
                model,
                methods=tuple(
                    replace(method, body=_block(method.body, method.self_name, steps))
                    for method in model.methods
                ),
            )
            for model in script.models
        )
        script = replace(script, models=tuple(models))


def _block(block: Block, self_name: str, steps: frozenset[str]) -> Block:
    return tuple(_statement(stmt, self_name, steps) for stmt in block)


def _statement(stmt: Stmt, self_name: str, steps: frozenset[str]) -> Stmt:
    return replace(
        stmt,
        exprs=tuple(_expression(each, self_name, steps) for each in stmt.exprs),
        targets=tuple(_expression(each, self_name, steps) for each in stmt.targets),
        body=_block(stmt.body, self_name, steps),
        orelse=_block(stmt.orelse, self_name, steps),
    )


def _expression(expr: Expr, self_name: str, steps: frozenset[str]) -> Expr:
    inner = rebuilt(expr, tuple(_expression(part, self_name, steps) for part in expr.parts))
    if inner.op != "call" or inner.role != "own":
        return inner
    callee = inner.parts[0]
    if callee.op != "attribute" or callee.name not in steps:
        return inner
    return replace(inner, role="function")
