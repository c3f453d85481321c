"""A loop that hands a value through the same stage a fixed number of times.

Before: for _ in range(3): x = self.cell(x)
After:  x = x.loop_body(self.cell).for_n(3)
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, names_read
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.plan.pattern import Case, Match
from fdl_cli.porter.plan.spine import replace_on_spine, spine
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
    # A setting may say how often, and every round may get the same further values.
    Case(
        before="""
            def forward(self, x, y):
                h = self.a(x)
                for _ in range(self.steps):
                    h = F.relu(self.mix(h, y))
                return self.b(h)
        """,
        after="""
            def flow(self, x, y):
                return x.through(self.a).loop_body((self.mix, F.relu), y).for_n(self.steps).through(self.b)
        """,
    ),
)
LEFT_ALONE = (
    # There is no stage that gets the value and gives the next one.
    Case(
        before="""
            def forward(self, x, y):
                for _ in range(2):
                    x = torch.max(x, y)
                return x
        """,
        after="""
            def flow(self, x, y):
                for _ in range(2):
                    x = torch.max(x, y)
                return x
        """,
    ),
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
    # What is carried along is not what the layer gets first.
    Case(
        before="""
            def forward(self, x, y):
                for _ in range(self.steps):
                    x = self.mix(y, x)
                return x
        """,
        after="""
            def flow(self, x, y):
                for _ in range(self.steps):
                    x = y.through(self.mix, x)
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

_PLAIN = frozenset({"name", "attribute", "constant"})


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write a loop with a fixed number of equal rounds as `loop_body(...).for_n(...)`."""
    loop = tail[-1]
    if loop.op != "for" or loop.orelse or len(loop.body) != 1 or loop.targets[0].op != "name":
        return None
    step = loop.body[0]
    if step.op != "assign" or len(step.targets) != 1 or step.targets[0].op != "name":
        return None
    rounds = _rounds(loop.exprs[0])
    context = _context(step.exprs[0])
    way = branch(_without(step.exprs[0], context))
    if rounds is None or way is None or not way.stages or way.head != step.targets[0].name:
        return None
    index = loop.targets[0].name
    bound = {index, way.head}
    fixed = (*way.stages, *(context.parts[2:] if context is not None else ()), rounds)
    if index in live or index == way.head or any(bound & names_read(part) for part in fixed):
        return None
    start = Expr(op="name", name=way.head, kind="flow")
    given = context.parts[2:] if context is not None else ()
    joint = Expr(
        op="repeat",
        parts=(start, as_stage(way.stages), rounds, *given),
        labels=("", *(context.labels if context is not None else ())),
        kind="flow",
        origin=loop.sources[0],
    )
    stmt = replace(step, exprs=(joint,), sources=loop.sources, name="loop")
    return Match(count=1, stmt=stmt)


def _context(value: Expr) -> Expr | None:
    """Return the first step of a round, if it takes more than the value: `x.through(cell, y)`."""
    steps = [node for node in spine(value) if node.op == "through"]
    if not steps:
        return None
    first = steps[-1]
    plain = all(part.op in _PLAIN for part in first.parts[2:])
    return first if len(first.parts) > 2 and plain and "**" not in first.labels else None


def _without(value: Expr, context: Expr | None) -> Expr:
    """Return the round without what the first step takes besides the value."""
    if context is None:
        return value
    labels = context.labels[:1] if context.op == "call" else ()
    bare = replace(context, parts=context.parts[:2], labels=labels, span=None)
    return replace_on_spine(value, context, bare)


def _rounds(iterable: Expr) -> Expr | None:
    called = iterable.op == "call" and iterable.parts[0].name == "range"
    if not called or len(iterable.parts) != 2:
        return None
    rounds = iterable.parts[1]
    number = rounds.op == "constant" and rounds.name.isdigit()
    # What methods of the object set is read in every call: it need not be the same in all.
    setting = rounds.op == "attribute" and rounds.kind == "python" and rounds.role != "state"
    own = setting and not rounds.dotted and rounds.parts[0].op == "name"
    return rounds if number or own else None
