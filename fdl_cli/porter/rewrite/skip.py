"""Two ways from one value, added: a main branch and a skip branch with its own layers.

Before: out = self.b(F.relu(self.a(x))); out = out + self.down(x)
After:  out = x.also_with(main=(self.a, F.relu, self.b), skip=self.down)
"""

from fdl_cli.porter.ir.expressions import Expr, place, walk
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.rewrite.additions import Addition, match_addition
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.stages import Branch, as_stage

CASES = (
    Case(
        before="""
            def forward(self, x):
                out = F.relu(self.a(x))
                out = self.b(out)
                out = out + self.down(x)
                return F.relu(out)
        """,
        after="""
            def flow(self, x):
                return x.also_with(main=(self.a, F.relu, self.b), skip=self.down).through(F.relu)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                identity = x
                out = self.b(self.a(x))
                if self.down is not None:
                    identity = self.down(x)
                return out + identity
        """,
        after="""
            def flow(self, x):
                return x.also_with(main=(self.a, self.b), skip=self.down if self.down is not None else ())
        """,
    ),
)
LEFT_ALONE = (
    # The branches ran in another order than they are added in.
    Case(
        before="""
            def forward(self, x):
                skip = self.down(x)
                out = self.a(x)
                return out + skip
        """,
        after="""
            def flow(self, x):
                skip = x.through(self.down)
                return x.through(self.a) + skip
        """,
    ),
    # The skip is read again: it stays a separate value, to which the other one is added.
    Case(
        before="""
            def forward(self, x):
                skip = self.down(x)
                out = skip + self.a(x)
                return out, skip
        """,
        after="""
            def flow(self, x):
                skip = x.through(self.down)
                return skip.also(x.through(self.a)), skip
        """,
    ),
    # Two values, two inputs.
    Case(
        before="""
            def forward(self, x, y):
                return self.a(x) + self.b(y)
        """,
        after="""
            def flow(self, x, y):
                return x.through(self.a) + y.through(self.b)
        """,
    ),
)

_SKIP_WORDS = ("skip", "short", "down", "ident", "proj", "res", "side")


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write `f(x) + g(x)` as `x.also_with(main=f, skip=g)`."""
    return match_addition(tail, live, _also_with)


def _also_with(addition: Addition) -> Expr | None:
    first, second = addition.branches
    if not first.stages or not second.stages:
        return None
    first_is_skip = _looks_like_skip(first, second)
    labels = ("skip", "main") if first_is_skip else ("main", "skip")
    return Expr(
        op="also_with",
        parts=(addition.start, as_stage(first.stages), as_stage(second.stages)),
        labels=labels,
        kind="flow",
        origin=place(addition.expr),
    )


def _looks_like_skip(first: Branch, second: Branch) -> bool:
    """Decide which of two branches is called the skip: by choice, by name, by length."""
    scores = [
        (
            any(stage.op == "conditional" for stage in way.stages),
            any(_says_skip(stage) for stage in way.stages),
            -len(way.stages),
        )
        for way in (first, second)
    ]
    return scores[0] > scores[1]


def _says_skip(stage: Expr) -> bool:
    return any(word in node.name.lower() for node in walk(stage) for word in _SKIP_WORDS)
