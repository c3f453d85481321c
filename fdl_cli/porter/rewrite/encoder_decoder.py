"""Values kept on the way down and used on the way up, as in encoder and decoder: tags by their names.

Before: a = self.a(x); b = self.b(a); c = self.up(self.c(b), b); return torch.cat([c, a], 1)
After:  x.through(self.a).tag("a").through(self.b).tag("b").through(self.c)
        .using("b").through(self.up).using("a").merge(Cat(dim=1))
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import STEP_WORDS, Expr, count_name, names_read, place
from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.rewrite.branches import Merger, dimension, merger
from fdl_cli.porter.rewrite.method_chain import receiver, with_receiver
from fdl_cli.porter.rewrite.pattern import Case, Match

CASES = (
    Case(
        before="""
            def forward(self, x):
                x1 = self.a(x)
                x2 = self.b(x1)
                x3 = self.c(x2)
                y = self.mix(x3, x2)
                y = self.mix(y, x1)
                return self.head(y)
        """,
        after="""
            def flow(self, x):
                return (
                    x.through(self.a).tag("x1")
                    .through(self.b).tag("x2")
                    .through(self.c)
                    .using("x2").through(self.mix)
                    .using("x1").through(self.mix)
                    .through(self.head)
                )
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                enc1 = self.a(x)
                enc2 = self.b(self.pool(enc1))
                dec2 = F.relu(self.c(enc2))
                dec2 = torch.cat([enc2, dec2], dim=1)
                dec1 = self.pool(dec2)
                dec1 = torch.cat([dec1, enc1], dim=1)
                return F.relu(dec1)
        """,
        after="""
            def flow(self, x):
                return (
                    x.through(self.a).tag("enc1")
                    .through(self.pool)
                    .through(self.b).tag("enc2")
                    .through(self.c)
                    .through(F.relu)
                    .using("enc2").merge(Cat(dim=1), last=True)
                    .through(self.pool)
                    .using("enc1").merge(Cat(dim=1))
                    .through(F.relu)
                )
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                low = F.relu(self.a(x))
                high = self.b(low)
                y = self.mix(self.c(high), input2=high)
                return self.mix(y, low)
        """,
        after="""
            def flow(self, x):
                return (
                    x.through(self.a)
                    .through(F.relu).tag("low")
                    .through(self.b).tag("high")
                    .through(self.c)
                    .using(input2="high").through(self.mix)
                    .using("low").through(self.mix)
                )
        """,
    ),
)
LEFT_ALONE = (
    # One value with a second reader is a variable.
    Case(
        before="""
            def forward(self, x):
                h = self.a(x)
                y = self.b(h)
                return self.mix(y, h)
        """,
        after="""
            def flow(self, x):
                h = x.through(self.a)
                return h.through(self.b).through(self.mix, h)
        """,
    ),
    # An operation on a kept value is no step of the chain.
    Case(
        before="""
            def forward(self, x):
                x1 = self.a(x)
                x2 = self.b(x1)
                y = self.mix(self.c(x2), x2)
                return self.mix(y, F.relu(x1 * x2))
        """,
        after="""
            def flow(self, x):
                x1 = x.through(self.a)
                x2 = x1.through(self.b)
                return x2.through(self.c).through(self.mix, x2).through(self.mix, F.relu(x1 * x2))
        """,
    ),
)

_FEWEST = 2


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write the definitions that lead to a returned chain into it, tagged where they are kept."""
    del live  # nothing is read after a return
    last = tail[-1]
    if last.op != "return" or len(last.exprs) != 1:
        return None
    run = _definitions(tail)
    while len(run) >= _FEWEST:
        joint = _joined(run, last.exprs[0])
        if joint is not None:
            sources = tuple(span for stmt in (*run, last) for span in stmt.sources)
            return Match(count=len(run) + 1, stmt=replace(last, exprs=(joint,), sources=sources))
        run = run[1:]
    return None


def _definitions(tail: Block) -> Block:
    """Return the variables that are defined right before the return."""
    found: list[Stmt] = []
    for stmt in reversed(tail[:-1]):
        if stmt.op != "assign" or len(stmt.targets) != 1 or stmt.targets[0].op != "name":
            break
        found.append(stmt)
    return tuple(reversed(found))


def _joined(run: Block, returned: Expr) -> Expr | None:
    names = [stmt.targets[0].name for stmt in run]
    following = [*(stmt.exprs[0] for stmt in run[1:]), returned]
    read = {name: sum(count_name(value, name) for value in following) for name in names}
    kept = frozenset(name for name in names if read[name] > 1)
    if len(read) != len(names) or len(kept) < _FEWEST:
        return None
    joint: Expr | None = run[0].exprs[0]
    for name, value in zip(names, following, strict=True):
        if joint is None or (name in kept and joint.op not in STEP_WORDS):
            return None
        start = _tag(joint, name) if name in kept else joint
        joint = _from_tags(value, name, start, kept)
    return joint


def _from_tags(expr: Expr, start: str, base: Expr, kept: frozenset[str]) -> Expr | None:
    """Return a chain over another start, which takes the kept values by their tags."""
    if expr.op == "name":
        return base if expr.name == start else None
    found = _sum(expr) or merger(expr)
    if found is not None and len(found[1]) > 1:
        return _merged(expr, found, start, base, kept)
    value = receiver(expr)
    below = None if value is None else _from_tags(value, start, base, kept)
    if below is None:
        return None
    moved = with_receiver(expr, below)
    if expr.op != "through":
        rest = with_receiver(expr, Expr(op="constant", name="None", kind="none"))
        return None if names_read(rest) & kept else moved
    return _using(moved, kept)


def _sum(expr: Expr) -> Merger | None:
    if expr.op == "also" and len(expr.parts) == 2 and expr.parts[1].kind == "flow":
        return "Add", expr.parts, None
    return ("Add", expr.parts, None) if expr.op == "binary" and expr.name == "+" else None


def _merged(
    expr: Expr, found: Merger, start: str, base: Expr, kept: frozenset[str]
) -> Expr | None:
    """Write an operation over the chain and kept values, the chain first or last of them."""
    name, parts, dim = found
    ways = [part for part in parts if part.op != "name" or part.name not in kept]
    ways = ways or [part for part in parts if part.name == start]
    if len(ways) != 1 or ways[0] not in {parts[0], parts[-1]}:
        return None
    below = _from_tags(ways[0], start, base, kept)
    if below is None:
        return None
    tags = tuple(_quoted(part.name) for part in parts if part is not ways[0])
    using = Expr(op="using", parts=(below, *tags), labels=("",) * len(tags), kind="flow")
    last = () if ways[0] is parts[0] else (Expr(op="constant", name="True", kind="python"),)
    extra = dimension(name, dim)
    return Expr(
        op="merge",
        name=name,
        parts=(using, *extra, *last),
        labels=(*("dim" for _ in extra), *("last" for _ in last)),
        kind="flow",
        origin=place(expr),
    )


def _using(step: Expr, kept: frozenset[str]) -> Expr | None:
    value, stage, *arguments = step.parts
    pairs = list(zip(step.labels, arguments, strict=True))
    taken = [
        (label, part)
        for position, (label, part) in enumerate(pairs)
        if part.op == "name"
        and part.name in kept
        and (label.isidentifier() or all(p.name in kept for _, p in pairs[:position]))
    ]
    rest = [pair for pair in pairs if pair not in taken]
    if any(names_read(part) & kept for part in (stage, *(part for _, part in rest))):
        return None
    if not taken:
        return step
    tags = tuple(_quoted(part.name) for _, part in taken)
    labels = tuple(label for label, _ in taken)
    using = Expr(op="using", parts=(value, *tags), labels=labels, kind="flow")
    return replace(
        step,
        parts=(using, stage, *(part for _, part in rest)),
        labels=tuple(label for label, _ in rest),
        origin=place(step),
    )


def _tag(value: Expr, name: str) -> Expr:
    return Expr(op="tag", parts=(value, _quoted(name)), labels=("",), kind="flow")


def _quoted(name: str) -> Expr:
    return Expr(op="constant", name=f'"{name}"', kind="python")
