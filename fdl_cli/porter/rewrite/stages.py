"""Branches of a graph as stages: the steps that lead from one value to another.

Before: self.bn(self.conv(x))
After:  from x, the stages (self.conv, self.bn)
"""

from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.ir.expressions import Expr, place, walk
from fdl_cli.porter.rewrite.method_chain import is_unary_torch, receiver

_SETTINGS = frozenset({"python", "module", "modules"})
_PURE = frozenset({"name", "attribute", "constant", "index", "slice", "unary", "binary"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The stages applied to the variable `head`; without stages it is the variable itself."""

    head: str
    stages: tuple[Expr, ...]


def branch(expr: Expr) -> Branch | None:
    """Return the expression as a branch, or nothing when a step needs more than its value."""
    if expr.op == "name" and expr.kind == "flow":
        return Branch(head=expr.name, stages=())
    if expr.op == "conditional":
        return _choice(expr)
    value = receiver(expr)
    stage = _stage(expr)
    if value is None or stage is None:
        return None
    before = branch(value)
    if before is None:
        return None
    return Branch(head=before.head, stages=(*before.stages, stage))


def _stage(expr: Expr) -> Expr | None:
    if expr.op == "through" and len(expr.parts) == 2:
        stage = expr.parts[1]
    elif is_unary_torch(expr) and len(expr.parts) == 2:
        stage = expr.parts[0]
    else:
        return None
    if not is_pure(stage) and not is_choice(stage):
        return None
    return replace(stage, origin=place(expr))


def is_choice(stage: Expr) -> bool:
    """Return True if a stage is one that `branch` made of a condition and the stages under it."""
    return stage.op == "conditional" and stage.span is None


def is_setting(test: Expr) -> bool:
    """Return True if a condition needs no tensor: a setting, or whether there is a submodule.

    One that binds a variable, `(h := f(x)).size(0) > 1`, has to come first: a chosen stage is read after
    the value that it is for.
    """
    return test.kind in _SETTINGS and not any(
        node.asked or node.op == "assignment" for node in walk(test)
    )


def is_pure(expr: Expr) -> bool:
    """Return True if evaluating the expression twice, or later, makes no difference."""
    return all(
        node.op in _PURE and node.kind not in {"flow", "flows", "parameters"}
        for node in walk(expr)
    )


def _choice(expr: Expr) -> Branch | None:
    """A branch chosen by configuration: `self.down(x) if self.down is not None else x`."""
    test = expr.parts[0]
    then, other = branch(expr.parts[1]), branch(expr.parts[2])
    if then is None or other is None or then.head != other.head or not is_setting(test):
        return None
    if not then.stages and not other.stages:
        return None
    stage = Expr(
        op="conditional",
        parts=(test, as_stage(then.stages), as_stage(other.stages)),
        kind="module",
        origin=place(expr),
    )
    return Branch(head=then.head, stages=(stage,))


def as_stage(stages: tuple[Expr, ...]) -> Expr:
    """Return several stages as one: a tuple, unless there is exactly one."""
    if len(stages) == 1:
        return stages[0]
    return Expr(op="tuple", parts=stages, kind="modules")
