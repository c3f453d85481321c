"""Approximate length of an expression once it is written; no text is made here."""

from fdl_cli.porter.ir.expressions import FLOW_WORDS, Expr, walk

_CHAINED = FLOW_WORDS - {"apply"}
_WORD = {"through": len(".through()"), "also": len(".also()"), "apply": len("call()")}
_LONG_WORD = len(".also_with(main=, skip=)")
# With fewer steps a statement that is too long is not laid out as a chain.
_CHAIN = 2
# A call that gives one of these computes nothing.
_GIVEN = frozenset({"size", "module", "modules"})


def width(expr: Expr) -> int:
    """Return about how many characters an expression takes on one line."""
    if expr.span is None:
        return _made(expr)
    length = expr.span.end - expr.span.start
    if len(expr.holes) != len(expr.parts):
        return length
    changes = zip(expr.holes, expr.parts, strict=True)
    return length + sum(width(part) - (hole.end - hole.start) for hole, part in changes)


def widest(expr: Expr) -> int:
    """Return the length of the longest line of an expression, with one step of a chain per line."""
    steps = []
    base = expr
    while base.op in _CHAINED:
        steps.append(width(base) - width(base.parts[0]))
        base = base.parts[0]
    return max(width(base), *steps) if len(steps) >= _CHAIN else width(expr)


def depth(expr: Expr) -> int:
    """Return how many computations are nested in each other's arguments: 1 in `f(g(x))`.

    Steps of a chain are not nested in each other, and sizes do not count.
    """
    if expr.op == "call" and expr.role == "method":
        callee, *arguments = expr.parts
        first = callee.parts[0]
    elif expr.op == "call" or expr.op in FLOW_WORDS:
        first, *arguments = expr.parts
    else:
        return max((depth(part) for part in expr.parts), default=0)
    inside = (1 + depth(part) for part in arguments if _computes(part))
    return max(depth(first), *inside, 0)


def _computes(expr: Expr) -> bool:
    return any(
        (node.op == "call" and node.kind not in _GIVEN) or node.op in FLOW_WORDS
        for node in walk(expr)
    )


def _made(expr: Expr) -> int:
    inside = sum(width(part) + len(", ") for part in expr.parts) - len(", ")
    inside += sum(len(label) + len("=") for label in expr.labels if label.isidentifier())
    match expr.op:
        case "name" | "constant":
            return len(expr.name)
        case "binary":
            return inside + len("+ ")
        case "conditional":
            return inside + len(" if  else ") - 2 * len(", ")
        case "tuple":
            return max(inside, 0) + len("()")
        case _:
            return inside + _WORD.get(expr.op, _LONG_WORD) - len(", ")
