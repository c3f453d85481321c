"""Helpers that cannot be described: each call of one is one step.

Before: y = self.pairwise(a, b), with a `@staticmethod` that calls layers or other libraries
After:  y = a.through(self.pairwise, b)

A helper without an object cannot be a `@subflow`, and one with a `try` says nothing that holds for
every call; such a helper stays as it is, and runs with real values.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, rebuilt
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.ir.symbols import MethodIR, ModelIR, ScriptIR


def with_helper_steps(
    script: ScriptIR, is_one_step: Callable[[MethodIR], bool]
) -> tuple[ScriptIR, Mapping[str, frozenset[str]]]:
    """Return the file with calls of such helpers as steps, and the names of the helpers per class."""
    families = _families(script)
    steps: dict[str, frozenset[str]] = {name: frozenset() for name in families.values()}
    while True:
        found = [
            (families[model.facts.name], method.name)
            for model in script.models
            for method in model.methods
            if method.name not in steps[families[model.facts.name]]
            and "property" not in method.decorators
            and method.name != "forward"
            and is_one_step(method)
        ]
        if not found:
            return script, {name: steps[family] for name, family in families.items()}
        for family, name in found:
            steps[family] |= {name}
        models = (_rewritten(model, steps[families[model.facts.name]]) for model in script.models)
        script = replace(script, models=tuple(models))


def _families(script: ScriptIR) -> dict[str, str]:
    """Return, per class, the first class of its family: those that extend one another."""
    found = {model.facts.name: model.facts.name for model in script.models}
    for model in script.models:
        for base in model.facts.bases:
            if base.name in found and found[base.name] != found[model.facts.name]:
                old, new = found[model.facts.name], found[base.name]
                found = {name: new if each == old else each for name, each in found.items()}
    return found


def _rewritten(model: ModelIR, steps: frozenset[str]) -> ModelIR:
    """Return a class whose helpers are steps: their contents never prevent a description."""
    inside = {reason for each in model.methods if each.name in steps for reason in each.refusals}
    methods = (
        replace(method, body=_block(method.body, method.self_name, steps))
        for method in model.methods
    )
    refusals = tuple(reason for reason in model.refusals if reason not in inside)
    return replace(model, methods=tuple(methods), refusals=refusals)


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
