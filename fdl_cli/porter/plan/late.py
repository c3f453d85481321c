"""A size or a setting with one reader stands where it is read, however far that is.

Before: n = x.size(0); y = self.a(x); return y.view(n, -1)
After:  return x.through(self.a).view(x.size(0), -1)
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import (
    Expr,
    count_name,
    inside_scope,
    names_read,
    substitute,
    walk,
)
from fdl_cli.porter.ir.statements import SIMPLE, Block, Stmt, bound_names, read_names, statements
from fdl_cli.porter.knowledge.tensor_methods import SIZE_ATTRIBUTES, SIZE_METHODS
from fdl_cli.porter.plan.pattern import Case, Match
from fdl_cli.porter.plan.width import widest

CASES = (
    Case(
        before="""
            def forward(self, x):
                n = x.size(0)
                y = self.a(x)
                return y.view(n, -1)
        """,
        after="""
            def flow(self, x):
                return x.through(self.a).view(x.size(0), -1)
        """,
    ),
    Case(
        before="""
            def forward(self, x, y):
                device = y.device
                rows = self.steps
                x = self.a(x)
                mask = torch.ones(rows, 4, device=device)
                return self.mix(x, y) * mask
        """,
        after="""
            def flow(self, x, y):
                x = x.through(self.a)
                mask = torch.ones(self.steps, 4, device=y.device)
                return x.through(self.mix, y) * mask
        """,
    ),
)
LEFT_ALONE = (
    # `x` is another value by then.
    Case(
        before="""
            def forward(self, x):
                n = x.size(0)
                x = self.a(x).unsqueeze(0)
                return self.mix(x, x).view(n, -1)
        """,
        after="""
            def flow(self, x):
                n = x.size(0)
                x = x.through(self.a).unsqueeze(0)
                return x.through(self.mix, x).view(n, -1)
        """,
    ),
    # Its shape is changed in place.
    Case(
        before="""
            def forward(self, x):
                n = x.size(0)
                y = x.unsqueeze_(0)
                return self.a(y).view(n, -1)
        """,
        after="""
            def flow(self, x):
                n = x.size(0)
                return x.unsqueeze_(0).through(self.a).view(n, -1)
        """,
    ),
    # Sizes that stand together keep their names together.
    Case(
        before="""
            def forward(self, x):
                n = x.size(0)
                m = x.size(1)
                return self.a(x).view(n, m, -1)
        """,
        after="""
            def flow(self, x):
                n = x.size(0)
                m = x.size(1)
                return x.through(self.a).view(n, m, -1)
        """,
    ),
)

_MAX_WIDTH = 80
_MAX_BACK = 12
_STILL_ATTRIBUTES = SIZE_ATTRIBUTES | {"device", "dtype"}
# What may stand between the value and its reader, as far as it does not touch what is read.
_PASSED = SIMPLE | {"if", "for", "while", "with", "assert", "raise", "pass", "docstring"}


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write a size, a device or a setting where the last statement reads it."""
    last = tail[-1]
    if last.op not in SIMPLE or len(last.exprs) != 1:
        return None
    for back in range(2, min(len(tail), _MAX_BACK) + 1):
        first, between = tail[-back], tail[len(tail) - back + 1 : -1]
        joint = _moved(first, between, last, live)
        if joint is not None:
            return Match(count=back, before=between, stmt=replace(last, exprs=(joint,)))
    return None


def _moved(first: Stmt, between: Block, last: Stmt, live: frozenset[str]) -> Expr | None:
    """Return the value of the last statement with the value of the first in it."""
    if first.op != "assign" or len(first.targets) != 1 or first.targets[0].op != "name":
        return None
    name, value, use = first.targets[0].name, first.exprs[0], last.exprs[0]
    if not _is_still(value) or not _is_read_once(name, between, last, live):
        return None
    if not all(_leaves_alone(stmt, names_read(value)) for stmt in statements(between)):
        return None
    if _reshapes(use) or not _reads_well(use, name, value):
        return None
    joint = substitute(use, name, value)
    return joint if widest(joint) <= _MAX_WIDTH else None


def _is_read_once(name: str, between: Block, last: Stmt, live: frozenset[str]) -> bool:
    use = last.exprs[0]
    if count_name(use, name) != 1 or inside_scope(use, name):
        return False
    if (name in live and name not in bound_names(last)) or last.op == "augment":
        return False
    touched = (read_names(stmt) | bound_names(stmt) for stmt in statements(between))
    return name not in read_names(replace(last, exprs=())) and not any(name in n for n in touched)


def _is_still(expr: Expr) -> bool:
    """Say whether nothing is computed: a size, a device or a dtype of a value, or a setting."""
    match expr.op:
        case "attribute" if expr.name in _STILL_ATTRIBUTES:
            return expr.parts[0].op == "name" and expr.parts[0].kind == "flow"
        case "attribute":
            plain = expr.role == "" and expr.kind == "python" and not expr.dotted
            return plain and expr.parts[0].op == "name" and expr.parts[0].kind == "python"
        case "index":
            shape, index = expr.parts
            counted = all(node.op in {"constant", "unary", "slice"} for node in walk(index))
            return (
                counted and shape.op == "attribute" and shape.name == "shape" and _is_still(shape)
            )
        case "call" if expr.role == "method" and expr.kind == "size":
            callee, *others = expr.parts
            owner = callee.parts[0] if callee.op == "attribute" else callee
            of_value = owner.op == "name" and owner.kind == "flow"
            plain = all(n.op in {"constant", "unary"} for each in others for n in walk(each))
            return of_value and plain and callee.name in SIZE_METHODS
        case _:
            return False


def _leaves_alone(stmt: Stmt, names: frozenset[str]) -> bool:
    if stmt.op not in _PASSED or bound_names(stmt) & names:
        return False
    return not any(_reshapes(expr) for expr in (*stmt.exprs, *stmt.targets))


def _reshapes(expr: Expr) -> bool:
    """Say whether a value is written to by a method, or its memory is exchanged."""
    return any(
        node.op == "attribute" and (node.name == "data" or _is_in_place(node.name))
        for node in walk(expr)
    )


def _is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _reads_well(use: Expr, name: str, value: Expr) -> bool:
    """Say whether no other size with a name stands beside it, and nothing but a shape is indexed."""
    for node in walk(use):
        if not any(part.op == "name" and part.name == name for part in node.parts):
            continue
        first = node.parts[0]
        is_owner = node.op in {"call", "index", "attribute"} and first.name == name
        if is_owner and (value.op != "attribute" or node.op != "index"):
            return False
        others = [p for p in node.parts if p.op == "name" and p.name != name]
        return not any(part.kind == "size" for part in others)
    return use.op == "name"
