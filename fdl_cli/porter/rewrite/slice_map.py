"""The same stages on every slice of a value, stacked again.

Before: torch.stack([self.head(x[:, i]) for i in range(x.size(1))], dim=1)
After:  x.map(self.head).along(1)
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, names_read, place
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.rewrite.collected import Collected, collected, swapped
from fdl_cli.porter.rewrite.method_chain import receiver, replace_on_spine, straighten
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.slices import counts_slices, integer, slice_at
from fdl_cli.porter.rewrite.stages import as_stage, branch, is_pure

CASES = (
    Case(
        before="""
            def forward(self, x):
                x = x.unsqueeze(1)
                return torch.stack([self.a(x[:, i]) for i in range(x.size(1))], dim=1)
        """,
        after="""
            def flow(self, x):
                return x.unsqueeze(1).map(self.a).along(1)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                x = x.view(2, 1, 4)
                B, T, D = x.shape
                outs = []
                for t in range(T):
                    out = F.relu(self.a(x[:, t, :]))
                    outs.append(out)
                outs = torch.stack(outs)
                return self.b(outs)
        """,
        after="""
            def flow(self, x):
                x = x.view(2, 1, 4)
                B, T, D = x.shape
                return x.map((self.a, F.relu)).along(1, out_dim=0).through(self.b)
        """,
    ),
)
LEFT_ALONE = (
    # Joining values that have a dimension for it is no stacking: memory formats may differ.
    Case(
        before="""
            def forward(self, x):
                parts = [self.a(x[i]).unsqueeze(0) for i in range(x.size(0))]
                return torch.cat(parts, dim=0)
        """,
        after="""
            def flow(self, x):
                parts = [x[i].through(self.a).unsqueeze(0) for i in range(x.size(0))]
                return torch.cat(parts, dim=0)
        """,
    ),
    # A setting gives the number of slices: it need not be all of them.
    Case(
        before="""
            def forward(self, x):
                return torch.stack([self.a(x[i]) for i in range(self.steps)], dim=1)
        """,
        after="""
            def flow(self, x):
                return torch.stack([x[i].through(self.a) for i in range(self.steps)], dim=1)
        """,
    ),
    # Every slice has its own layer.
    Case(
        before="""
            def forward(self, x):
                return torch.stack([self.layers[i](x[i]) for i in range(x.size(0))])
        """,
        after="""
            def flow(self, x):
                return torch.stack([x[i].through(self.layers[i]) for i in range(x.size(0))])
        """,
    ),
)


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write the stages on every slice of a value as a map."""
    found = collected(tail, live)
    if found is None or found.lead or found.merge != "Stack" or not is_pure(found.dim):
        return None
    word = _map(found)
    if word is None:
        return None
    last = tail[-1]
    value = straighten(swapped(last.exprs[0], found.node, word))
    stmt = replace(last, exprs=(value,), sources=(*found.loop, *last.sources))
    return Match(count=found.count, stmt=stmt, before=found.between)


def _map(found: Collected) -> Expr | None:
    base = _slice_below(found.element)
    if found.target.op != "name" or base is None:
        return None
    sliced = slice_at(base, found.target.name)
    if sliced is None or not counts_slices(
        found.iterable, sliced, (*found.earlier, *found.between)
    ):
        return None
    value = base.parts[0]
    way = branch(replace_on_spine(found.element, base, value))
    if way is None or not way.stages or way.head != sliced[0]:
        return None
    if any(found.target.name in names_read(stage) for stage in way.stages):
        return None
    dim = Expr(op="constant", name=str(sliced[1]), kind="python")
    same = integer(found.dim) == sliced[1]
    return Expr(
        op="map",
        parts=(value, as_stage(way.stages), dim, *(() if same else (found.dim,))),
        labels=("", "dim", *(() if same else ("out_dim",))),
        kind="flow",
        origin=place(found.node),
    )


def _slice_below(element: Expr) -> Expr | None:
    """Return the slice that stages are applied to: `x[:, i]` of `self.a(x[:, i])`."""
    node: Expr | None = element
    while node is not None and node.op != "index":
        node = receiver(node)
    return node
