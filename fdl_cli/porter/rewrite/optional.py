"""A step that is only taken in some settings: the stage, or no stage at all.

Before: x = self.conv(x); if self.norm is not None: x = self.norm(x); x = F.relu(x)
After:  x = x.through(self.conv).through(self.norm if self.norm is not None else ()).through(F.relu)
"""

from dataclasses import replace

from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.rewrite import chain
from fdl_cli.porter.rewrite.choice import chosen_step
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.window import choice

CASES = (
    Case(
        before="""
            def forward(self, x):
                x = self.a(x)
                if self.norm is not None:
                    x = self.norm(x)
                return F.relu(x)
        """,
        after="""
            def flow(self, x):
                return (
                    x.through(self.a)
                    .through(self.norm if self.norm is not None else ())
                    .through(F.relu)
                )
        """,
    ),
    # Several of them, from the first statement to the last.
    Case(
        before="""
            def forward(self, x):
                if self.norm is not None:
                    x = self.norm(x)
                x = self.a(x)
                if self.training:
                    x = F.relu(self.b(x))
                return x
        """,
        after="""
            def flow(self, x):
                return (
                    x.through(self.norm if self.norm is not None else ())
                    .through(self.a)
                    .through((self.b, F.relu) if self.training else ())
                )
        """,
    ),
)
LEFT_ALONE = (
    # Its operations need more than the value.
    Case(
        before="""
            def forward(self, x, y):
                x = self.a(x)
                if self.training:
                    x = self.mix(x, y)
                return self.b(x)
        """,
        after="""
            def flow(self, x, y):
                x = x.through(self.a)
                if self.training:
                    x = x.through(self.mix, y)
                return x.through(self.b)
        """,
    ),
    # Whether it runs depends on the value.
    Case(
        before="""
            def forward(self, x):
                x = self.a(x)
                if x.size(0) > 1:
                    x = self.b(x)
                return self.head(x)
        """,
        after="""
            def flow(self, x):
                x = x.through(self.a)
                if x.size(0) > 1:
                    x = x.through(self.b)
                return x.through(self.head)
        """,
    ),
)


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write a condition with one step under it as an optional step of the chain which it joins."""
    last = tail[-1]
    optional = _step(last)
    if optional is not None:
        return chain.match((*tail[:-1], optional), live)
    optional = _step(tail[-2]) if len(tail) > 1 else None
    return None if optional is None else chain.match((*tail[:-2], optional, last), live)


def _step(stmt: Stmt) -> Stmt | None:
    """Read `if c: x = f(x)` as x = x through f if c, else nothing."""
    chosen = choice(stmt) if stmt.op == "if" and not stmt.orelse else None
    if chosen is None:
        return None
    name, value = chosen
    joint = chosen_step(value)
    if joint is None or joint.parts[0].name != name:
        return None
    return replace(
        stmt, op="assign", targets=stmt.body[0].targets, exprs=(joint,), body=(), orelse=()
    )
