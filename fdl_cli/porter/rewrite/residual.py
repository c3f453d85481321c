"""A value plus what is made of it: residual connections.

Before: identity = x; out = self.b(F.relu(self.a(x))); out = identity + out
After:  out = x.also((self.a, F.relu, self.b))

The result of a sum has the strides of its first operand, so only `x + f(x)` is `x.also(f)`. `f(x) + x` and
`out += identity`, which keeps the memory and the dtype of `out`, stay as they are.
"""

from fdl_cli.porter.ir.expressions import Expr, place
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.rewrite.additions import Addition, match_addition
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.stages import as_stage

CASES = (
    Case(
        before="""
            def forward(self, x):
                identity = x
                out = self.a(x)
                out = F.relu(out)
                out = self.b(out)
                out = identity + out
                return F.relu(out)
        """,
        after="""
            def flow(self, x):
                return x.also((self.a, F.relu, self.b)).through(F.relu)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                x = x + self.a(self.norm(x))
                x = x + self.b(x)
                return x
        """,
        after="""
            def flow(self, x):
                return x.also((self.norm, self.a)).also(self.b)
        """,
    ),
)
LEFT_ALONE = (
    # The other way round the result has other strides.
    Case(
        before="""
            def forward(self, x):
                x = self.b(x) + x
                return self.pool(x)
        """,
        after="""
            def flow(self, x):
                return (x.through(self.b) + x).through(self.pool)
        """,
    ),
    # In place it keeps the memory and the dtype of `out`.
    Case(
        before="""
            def forward(self, x):
                identity = x
                out = self.a(x)
                out += identity
                return F.relu(out)
        """,
        after="""
            def flow(self, x):
                identity = x
                out = x.through(self.a)
                out += identity
                return F.relu(out)
        """,
    ),
    # The input itself is written to: that must be seen by the caller.
    Case(
        before="""
            def forward(self, x):
                x += self.a(x)
                return x
        """,
        after="""
            def flow(self, x):
                x += x.through(self.a)
                return x
        """,
    ),
    # The two sides of the sum do not come from one value.
    Case(
        before="""
            def forward(self, x, y):
                return y + self.a(x)
        """,
        after="""
            def flow(self, x, y):
                return y + x.through(self.a)
        """,
    ),
)


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write `x + f(x)` as `x.also(f)`."""
    return match_addition(tail, live, _also)


def _also(addition: Addition) -> Expr | None:
    first, second = addition.branches
    if first.stages or not second.stages:
        return None
    stages = second.stages
    if stages[-1].op == "conditional" and len(stages) == 1:
        # `x + (f(x) if c else x)` doubles x in one case: no residual.
        return None
    return Expr(
        op="also",
        parts=(addition.start, as_stage(stages)),
        labels=("",),
        kind="flow",
        origin=place(addition.expr),
    )
