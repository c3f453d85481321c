"""One of two values, chosen by a setting: a condition within the value, where that is short.

Before: if self.training: h = F.relu(self.a(x)) else: h = self.b(x)
After:  h = x.through((self.a, F.relu) if self.training else self.b)
"""

from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.ir.expressions import Expr, place
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.stages import branch, is_setting
from fdl_cli.porter.rewrite.width import width

CASES = (
    Case(
        before="""
            def forward(self, x):
                if self.training:
                    h = F.relu(self.a(x))
                else:
                    h = self.b(x)
                return self.head(h)
        """,
        after="""
            def flow(self, x):
                return x.through((self.a, F.relu) if self.training else self.b).through(self.head)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                h = self.a(x)
                if self.training:
                    return h, self.b(h)
                return h
        """,
        after="""
            def flow(self, x):
                h = x.through(self.a)
                return (h, h.through(self.b)) if self.training else h
        """,
    ),
    Case(
        before="""
            def forward(self, x, y=None):
                h = self.a(x)
                if y is not None:
                    h = h * y.sigmoid()
                return h
        """,
        after="""
            def flow(self, x, y=None):
                h = x.through(self.a)
                return h * y.sigmoid() if y is not None else h
        """,
    ),
)
LEFT_ALONE = (
    # Three ways are easier to read one below the other.
    Case(
        before="""
            def forward(self, x):
                if self.steps == 1:
                    return self.a(x)
                elif self.steps == 2:
                    return self.b(x)
                else:
                    return self.c(x)
        """,
        after="""
            def flow(self, x):
                if self.steps == 1:
                    return x.through(self.a)
                elif self.steps == 2:
                    return x.through(self.b)
                else:
                    return x.through(self.c)
        """,
    ),
    # Together they would not fit on a line.
    Case(
        before="""
            def forward(self, x, y):
                if self.training:
                    x = torch.clamp(torch.softmax(x, dim=-1), min=0.1, max=0.9) + torch.sigmoid(y)
                else:
                    x = x * y
                return self.b(x)
        """,
        after="""
            def flow(self, x, y):
                if self.training:
                    x = torch.clamp(torch.softmax(x, dim=-1), min=0.1, max=0.9) + torch.sigmoid(y)
                else:
                    x = x * y
                return x.through(self.b)
        """,
    ),
)

_MAX_STAGES = 3
_MAX_STAGE_WIDTH = 70
_MAX_WIDTH = 100


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Ways:
    """`count` statements that give or bind one of two values; `stmt` does the same with either."""

    count: int
    stmt: Stmt
    value: Expr


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write a choice between two values as one value."""
    del live
    ways = _if_else(tail[-1])
    if ways is None and len(tail) > 1:
        ways = _early_return(*tail[-2:]) or _last_change(*tail[-2:])
    if ways is None or any(part.op == "conditional" for part in ways.value.parts):
        return None
    joint = chosen_step(ways.value)
    if joint is None and width(ways.value) > _MAX_WIDTH:
        return None
    return Match(count=ways.count, stmt=replace(ways.stmt, exprs=(joint or ways.value,)))


def chosen_step(value: Expr) -> Expr | None:
    """Write `f(x) if c else g(x)` as one step of x: through f if c, else g."""
    way = branch(value)
    if way is None or len(way.stages) != 1:
        return None
    stage = way.stages[0]
    short = all(
        part.op != "conditional" and _length(part) <= _MAX_STAGES for part in stage.parts[1:]
    )
    if not short or width(stage) > _MAX_STAGE_WIDTH:
        return None
    start = Expr(op="name", name=way.head, kind="flow")
    return Expr(op="through", parts=(start, stage), kind="flow", origin=place(stage))


def _length(stage: Expr) -> int:
    return len(stage.parts) if stage.op == "tuple" and stage.span is None else 1


def _if_else(stmt: Stmt) -> _Ways | None:
    if stmt.op != "if" or len(stmt.body) != 1 or len(stmt.orelse) != 1:
        return None
    then, other = stmt.body[0], stmt.orelse[0]
    if then.op != other.op or not _binds_same(then, other):
        return None
    value = _conditional(stmt, then, other)
    if value is None:
        return None
    return _Ways(count=1, stmt=replace(then, sources=stmt.sources), value=value)


def _early_return(stmt: Stmt, last: Stmt) -> _Ways | None:
    if stmt.op != "if" or stmt.orelse or len(stmt.body) != 1 or last.op != "return":
        return None
    then = stmt.body[0]
    value = _conditional(stmt, then, last) if then.op == "return" else None
    if value is None:
        return None
    sources = (*stmt.sources, *last.sources)
    return _Ways(count=2, stmt=replace(last, sources=sources), value=value)


def _last_change(stmt: Stmt, last: Stmt) -> _Ways | None:
    """Read `if c: y = f(y)`, `return y` as the return of one of the two."""
    if stmt.op != "if" or stmt.orelse or len(stmt.body) != 1 or last.op != "return":
        return None
    then = stmt.body[0]
    plain = then.op == "assign" and len(then.targets) == 1 and then.targets[0].op == "name"
    if not plain or not last.exprs or last.exprs[0].op != "name":
        return None
    value = _conditional(stmt, then, last) if last.exprs[0].name == then.targets[0].name else None
    if value is None:
        return None
    return _Ways(count=2, stmt=replace(last, sources=(*stmt.sources, *last.sources)), value=value)


def _binds_same(then: Stmt, other: Stmt) -> bool:
    if then.op == "return":
        return True
    names = [target.name for stmt in (then, other) for target in stmt.targets]
    plain = all(target.op == "name" for stmt in (then, other) for target in stmt.targets)
    return then.op == "assign" and plain and len(names) == 2 and names[0] == names[1]


def _conditional(stmt: Stmt, then: Stmt, other: Stmt) -> Expr | None:
    test = stmt.exprs[0]
    if len(then.exprs) != 1 or len(other.exprs) != 1 or not is_setting(test):
        return None
    return Expr(
        op="conditional",
        parts=(test, then.exprs[0], other.exprs[0]),
        kind=then.exprs[0].kind if then.exprs[0].kind == other.exprs[0].kind else "maybe",
        origin=stmt.sources[0],
    )
