"""One step after the other: values that are only passed on become one chain.

Before: x = self.conv(x); x = self.bn(x); return F.relu(x)
After:  return x.through(self.conv).through(self.bn).through(F.relu)
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, count_name, has_flow_word
from fdl_cli.porter.ir.statements import SIMPLE, Block, Stmt, bound_names, read_names
from fdl_cli.porter.rewrite.method_chain import (
    all_steps,
    head,
    replace_on_spine,
    spine,
    straighten,
)
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.width import width

CASES = (
    Case(
        before="""
            def forward(self, x):
                x = self.a(x)
                x = F.relu(x)
                x = self.b(x)
                return x
        """,
        after="""
            def flow(self, x):
                return x.through(self.a).through(F.relu).through(self.b)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                x = self.pool(F.relu(self.a(x)))
                x = x.view(-1, 4)
                return self.b(x)
        """,
        after="""
            def flow(self, x):
                return x.through(self.a).through(F.relu).through(self.pool).view(-1, 4).through(self.b)
        """,
    ),
    # Steps without a layer among them are a chain as well.
    Case(
        before="""
            def forward(self, x, y):
                h = torch.mul(x, y)
                h = h.masked_fill(y == 0, -1e9)
                h = F.softmax(h, dim=-1)
                return F.dropout(h, 0.1, self.training)
        """,
        after="""
            def flow(self, x, y):
                return (
                    torch.mul(x, y).masked_fill(y == 0, -1e9)
                    .through(F.softmax, dim=-1)
                    .through(F.dropout, 0.1, self.training)
                )
        """,
    ),
)
LEFT_ALONE = (
    # `h` is read twice: it keeps its name.
    Case(
        before="""
            def forward(self, x):
                h = self.a(x)
                return h * torch.sigmoid(h)
        """,
        after="""
            def flow(self, x):
                h = x.through(self.a)
                return h * torch.sigmoid(h)
        """,
    ),
    # An in-place operation writes into the value of `x`.
    Case(
        before="""
            def forward(self, x, y):
                x = self.a(x)
                x *= y
                return x
        """,
        after="""
            def flow(self, x, y):
                x = x.through(self.a)
                x *= y
                return x
        """,
    ),
)

SKIP_WORDS = ("skip", "short", "ident", "residual")
_MAX_PARENTHESES = 1
_MAX_WIDTH = 80


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Hand the value of the statement before the last one to the last one."""
    if len(tail) < 2:
        return None
    first, last = tail[-2:]
    if not _is_definition(first) or last.op not in SIMPLE or last.op == "augment":
        return None
    if len(last.exprs) != 1:
        return None
    name, value = first.targets[0].name, first.exprs[0]
    use = last.exprs[0]
    start = head(use)
    if start.op != "name" or start.name != name or count_name(use, name) != 1:
        return None
    if name in live and name not in bound_names(last):
        return None
    if name in read_names(replace(last, exprs=())):
        return None
    joint = replace_on_spine(use, start, value)
    joint = straighten(joint) if has_flow_word(joint) else all_steps(joint)
    if not _reads_well(joint, use, value):
        return None
    if value.op == "binary" and len(first.sources) > 1 and use.op != "name":
        return None
    if says_skip(name) and _is_summand(use, name):
        # A sum with a skip is written as one, as long as its name shows it.
        return None
    return Match(
        count=2, stmt=replace(last, exprs=(joint,), sources=(*first.sources, *last.sources))
    )


def says_skip(name: str) -> bool:
    """Return True if a value is a skip connection by its name."""
    return any(word in name for word in SKIP_WORDS)


def _is_summand(use: Expr, name: str) -> bool:
    return any(
        node.op == "binary"
        and node.name == "+"
        and head(node.parts[0]).name == name
        and node.parts[0].op == "name"
        for node in spine(use)
    )


def _is_definition(stmt: Stmt) -> bool:
    return stmt.op == "assign" and len(stmt.targets) == 1 and stmt.targets[0].op == "name"


def _reads_well(joint: Expr, use: Expr, value: Expr) -> bool:
    if value.op in {"name", "constant"}:
        return False
    if use.op == "name":
        return True
    if value.op == "conditional":
        return False
    nodes = spine(joint)
    inner = sum(1 for node in nodes[1:] if node.op == "binary")
    if inner > _MAX_PARENTHESES or (inner and nodes[0].op == "binary"):
        return False
    if nodes[0].op == "binary" and has_flow_word(nodes[0].parts[1]) and width(joint) > _MAX_WIDTH:
        return False
    base = nodes[-1]
    return base.op in {"name", "attribute", "index", "call", "apply", "tuple", "list"}
