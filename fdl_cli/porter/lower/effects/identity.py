"""`a is b` of two values: two inputs may be one object, which only a call shows."""

from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.ir.source import Span

_QUESTIONS = {"is": "lambda a, b: a is b", "is not": "lambda a, b: a is not b"}


def asks_of_objects(symbol: str, left: Expr, right: Expr) -> bool:
    """Return True if a comparison is one of identity, which proxies do not preserve."""
    parts = (left, right)
    if symbol not in _QUESTIONS or any(part.kind == "none" for part in parts):
        return False
    both = all(part.op == "name" and part.kind in {"flow", "maybe"} for part in parts)
    return both or any(part.kind in {"flow", "result"} for part in parts)


def question_of_objects(symbol: str, parts: tuple[Expr, ...], span: Span) -> Expr:
    """Return the step that compares the objects of a call."""
    callee = Expr(op="name", name=_QUESTIONS[symbol], kind="python")
    return Expr(
        op="call",
        role="function",
        parts=(callee, *parts),
        labels=("",) * len(parts),
        kind="size",
        span=span,
    )
