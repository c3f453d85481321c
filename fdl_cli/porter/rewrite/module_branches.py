"""All modules of a list on the same value, put together by one operation.

Before: torch.cat([conv(x) for conv in self.convs], dim=1)
After:  x.split(self.convs).merge(Cat(dim=1))

`sum` of a list starts from the number 0, which turns a negative zero into a zero: it stays `sum`, where
`Add` would give other bits. A generator is left alone, as `sum` then adds each value before the next
one is computed, which tells where layers write into memory that they share. So is a mixture of
experts, `sum(w[:, i:i+1] * e(x) ...)`: `gate` adds and multiplies in one step, and rounds once.
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, names_read, place
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.rewrite.collected import Collected, collected, swapped
from fdl_cli.porter.rewrite.method_chain import straighten
from fdl_cli.porter.rewrite.module_lists import modules_of
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.stages import is_pure

CASES = (
    Case(
        before="""
            def forward(self, x):
                return torch.cat([layer(x) for layer in self.layers], dim=1)
        """,
        after="""
            def flow(self, x):
                return x.split(self.layers).merge(Cat(dim=1))
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                outs = []
                for layer in self.layers:
                    outs.append(layer(x))
                outs = torch.stack(outs, 1)
                return self.head(F.relu(outs))
        """,
        after="""
            def flow(self, x):
                return x.split(self.layers).merge(Stack(dim=1)).through(F.relu).through(self.head)
        """,
    ),
    # A mixture of experts: the experts are branches, the weighted sum stays as it is.
    Case(
        before="""
            def forward(self, x):
                weights = F.softmax(self.a(x)[:, :2], dim=-1)
                outs = torch.stack([expert(x) for expert in self.layers], dim=1)
                return (outs * weights.unsqueeze(-1)).sum(1)
        """,
        after="""
            def flow(self, x):
                weights = x.through(self.a)[:, :2].through(F.softmax, dim=-1)
                return (x.split(self.layers).merge(Stack(dim=1)) * weights.unsqueeze(-1)).sum(1)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                return x + sum([layer(x) for layer in self.layers])
        """,
        after="""
            def flow(self, x):
                return x.also(x.split(self.layers).merge(sum))
        """,
    ),
)
LEFT_ALONE = (
    # The sum of a generator adds each value before the next one is computed.
    Case(
        before="""
            def forward(self, x):
                return sum(layer(x) for layer in self.layers)
        """,
        after="""
            def flow(self, x):
                return sum(x.through(layer) for layer in self.layers)
        """,
    ),
    # `gate` rounds otherwise than a product and a sum.
    Case(
        before="""
            def forward(self, x):
                w = self.a(x)
                return sum([w[:, i:i + 1] * layer(x) for i, layer in enumerate(self.layers)])
        """,
        after="""
            def flow(self, x):
                w = x.through(self.a)
                return sum([w[:, i:i + 1] * x.through(layer) for i, layer in enumerate(self.layers)])
        """,
    ),
    # Every module needs another value as well.
    Case(
        before="""
            def forward(self, x, y):
                return torch.cat([layer(x, y) for layer in self.mixers], dim=1)
        """,
        after="""
            def flow(self, x, y):
                return torch.cat([x.through(layer, y) for layer in self.mixers], dim=1)
        """,
    ),
    # The list itself is wanted, too.
    Case(
        before="""
            def forward(self, x):
                outs = [layer(x) for layer in self.layers]
                return torch.cat(outs, 1), outs
        """,
        after="""
            def flow(self, x):
                outs = [x.through(layer) for layer in self.layers]
                return torch.cat(outs, 1), outs
        """,
    ),
)
_MODULE_LIST = "torch.nn.ModuleList"


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write the modules of a list, all on one value, as a split and a merge."""
    found = collected(tail, live)
    if found is None or found.lead or not is_pure(found.dim):
        return None
    word = _split_merge(found)
    if word is None:
        return None
    last = tail[-1]
    value = straighten(swapped(last.exprs[0], found.node, word))
    stmt = replace(last, exprs=(value,), sources=(*found.loop, *last.sources))
    return Match(count=found.count, stmt=stmt, before=found.between)


def _split_merge(found: Collected) -> Expr | None:
    element = found.element
    if element.op != "through" or len(element.parts) != 2:
        return None
    value, stage = element.parts
    modules = modules_of(found.target, found.iterable, stage)
    if modules is None or not _is_module_list(modules) or value.op != "name":
        return None
    if value.kind != "flow" or value.name in names_read(found.target):
        return None
    is_sum = found.merge == "sum"
    return Expr(
        op="merge",
        name=found.merge,
        parts=(value, modules) if is_sum else (value, modules, found.dim),
        labels=("",) if is_sum else ("", "dim"),
        kind="flow",
        origin=place(found.node),
    )


def _is_module_list(modules: Expr) -> bool:
    """Return True if it is known to be a list: a Sequential would be one branch, not several."""
    owner = modules.parts[0] if modules.op == "index" else modules
    return owner.maker == _MODULE_LIST
