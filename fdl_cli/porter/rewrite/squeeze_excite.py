"""A value of a chain times what is made of it, as in squeeze and excitation: two branches, multiplied.

Before: x = self.bn(x); x = x * self.excite(self.squeeze(x)); x = self.conv(x)
After:  x = x.through(self.bn).split((), (self.squeeze, self.excite)).merge(Mul()).through(self.conv)
"""

from fdl_cli.porter.ir.expressions import Expr, count_name, place
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.rewrite import chain
from fdl_cli.porter.rewrite.branches import merger
from fdl_cli.porter.rewrite.method_chain import replace_on_spine, spine
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.stages import as_stage, branch
from fdl_cli.porter.rewrite.window import Window, open_window

CASES = (
    Case(
        before="""
            def forward(self, x):
                x = F.relu(self.a(x))
                w = self.b(self.pool(x))
                w = torch.sigmoid(w)
                x = x * w
                return self.head(x)
        """,
        after="""
            def flow(self, x):
                return (
                    x.through(self.a)
                    .through(F.relu)
                    .split((), (self.pool, self.b, torch.sigmoid))
                    .merge(Mul())
                    .through(self.head)
                )
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                out = self.a(x)
                out = torch.mul(self.b(out), out)
                return F.relu(self.c(out))
        """,
        after="""
            def flow(self, x):
                return x.through(self.a).split(self.b, ()).merge(Mul()).through(self.c).through(F.relu)
        """,
    ),
)
LEFT_ALONE = (
    # The value has a name: it is multiplied as it was written.
    Case(
        before="""
            def forward(self, x):
                w = self.b(self.pool(x))
                return x * w
        """,
        after="""
            def flow(self, x):
                return x * x.through(self.pool).through(self.b)
        """,
    ),
    # It is read once more.
    Case(
        before="""
            def forward(self, x):
                h = self.a(x)
                return F.relu(h * self.b(h)) - h
        """,
        after="""
            def flow(self, x):
                h = x.through(self.a)
                return F.relu(h * h.through(self.b)) - h
        """,
    ),
)

_MAX_WINDOW = 3
# The value itself, and what is made of it.
_READS = 2


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write the product of a value and what was made of it as branches of the chain before."""
    window = open_window(tail, live)
    while window is not None and window.count <= _MAX_WINDOW:
        found = _in_window(window)
        if found is not None:
            return found
        window = window.wider()
    return None


def _in_window(window: Window) -> Match | None:
    # A value that ends with the product reads best as one: the steps after it are what needs a chain.
    for node in spine(window.value)[1:]:
        word = _split(node)
        if word is None or count_name(window.value, word.parts[0].name) != _READS:
            continue
        joint = replace_on_spine(window.value, node, word)
        if not window.keeps_order(joint):
            continue
        before = window.tail[: -window.count]
        found = chain.match((*before, window.finish(joint)), window.live)
        if found is not None:
            return Match(count=window.count + found.count - 1, stmt=found.stmt)
    return None


def _split(node: Expr) -> Expr | None:
    found = merger(node)
    if found is None or found[0] != "Mul" or len(found[1]) != _READS:
        return None
    ways = [branch(part) for part in found[1]]
    first, second = ways
    if first is None or second is None or first.head != second.head:
        return None
    if bool(first.stages) == bool(second.stages):
        return None
    start = Expr(op="name", name=first.head, kind="flow")
    return Expr(
        op="merge",
        name="Mul",
        parts=(start, as_stage(first.stages), as_stage(second.stages)),
        labels=("", ""),
        kind="flow",
        origin=place(node),
    )
