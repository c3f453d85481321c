"""A loop that hands a value through the same stage a fixed number of times.

Before: for _ in range(3): x = self.cell(x)
After:  x = x.loop_body(self.cell).for_n(3)
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, names_read
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.plan.pattern import Case, Match
from fdl_cli.porter.plan.stages import as_stage, branch

CASES = (
    Case(
        before="""
            def forward(self, x):
                for _ in range(3):
                    x = self.a(x)
                return x
        """,
        after="""
            def flow(self, x):
                return x.loop_body(self.a).for_n(3)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                for _ in range(2):
                    x = self.a(x)
                    x = F.relu(x)
                return self.b(x)
        """,
        after="""
            def flow(self, x):
                return x.loop_body((self.a, F.relu)).for_n(2).through(self.b)
        """,
    ),
)
LEFT_ALONE = (
    # Every round runs another module.
    Case(
        before="""
            def forward(self, x):
                for i in range(2):
                    x = self.layers[i](x)
                return x
        """,
        after="""
            def flow(self, x):
                for i in range(2):
                    x = x.through(self.layers[i])
                return x
        """,
    ),
    # A setting may be zero: then nothing runs at all.
    Case(
        before="""
            def forward(self, x):
                for _ in range(self.steps):
                    x = self.a(x)
                return x
        """,
        after="""
            def flow(self, x):
                for _ in range(self.steps):
                    x = x.through(self.a)
                return x
        """,
    ),
    # The number of rounds comes from the shape of a value.
    Case(
        before="""
            def forward(self, x):
                for _ in range(x.size(1)):
                    x = self.a(x)
                return x
        """,
        after="""
            def flow(self, x):
                for _ in range(x.size(1)):
                    x = x.through(self.a)
                return x
        """,
    ),
)


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write a loop with a fixed number of equal rounds as `loop_body(...).for_n(...)`."""
    loop = tail[-1]
    if loop.op != "for" or loop.orelse or len(loop.body) != 1 or loop.targets[0].op != "name":
        return None
    step = loop.body[0]
    if step.op != "assign" or len(step.targets) != 1 or step.targets[0].op != "name":
        return None
    rounds = _rounds(loop.exprs[0])
    way = branch(step.exprs[0])
    if rounds is None or way is None or not way.stages or way.head != step.targets[0].name:
        return None
    index = loop.targets[0].name
    if index in live or index == way.head or any(index in names_read(s) for s in way.stages):
        return None
    start = Expr(op="name", name=way.head, kind="flow")
    origin = loop.sources[0]
    stage = as_stage(way.stages)
    joint = Expr(
        op="repeat", parts=(start, stage, rounds), labels=("", ""), kind="flow", origin=origin
    )
    stmt = replace(step, exprs=(joint,), sources=loop.sources, name="loop")
    return Match(count=1, stmt=stmt)


def _rounds(iterable: Expr) -> Expr | None:
    called = iterable.op == "call" and iterable.parts[0].name == "range"
    if not called or len(iterable.parts) != 2:
        return None
    rounds = iterable.parts[1]
    # A setting may be zero, and then there is no round: only numbers are known to be positive.
    positive = rounds.op == "constant" and rounds.name.isdigit() and int(rounds.name) > 0
    return rounds if positive else None
