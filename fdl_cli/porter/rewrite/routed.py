"""One module of a list, chosen by a router: hard routing.

Before: index = self.router(x).mean(0).argmax(); return self.experts[index](x)
After:  return x.switch(index, self.experts)

Only an index that `argmax` gives is known to count from 0; others, a negative one or one that
Python computes, are left alone, and so are weighted sums: see `module_branches`.
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, place, rebuilt
from fdl_cli.porter.ir.statements import SIMPLE, Block, bound_names, statements
from fdl_cli.porter.rewrite.method_chain import straighten
from fdl_cli.porter.rewrite.pattern import Case, Match

CASES = (
    Case(
        before="""
            def forward(self, x):
                index = self.a(x).mean(0)[:2].argmax()
                return self.layers[index](x)
        """,
        after="""
            def flow(self, x):
                index = x.through(self.a).mean(0)[:2].argmax()
                return x.switch(index, self.layers)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                x = self.layers[torch.argmax(x[0, :2])](x)
                return self.head(x)
        """,
        after="""
            def flow(self, x):
                return x.switch(torch.argmax(x[0, :2]), self.layers).through(self.head)
        """,
    ),
)
LEFT_ALONE = (
    # Python computes the index: its value selects the branch.
    Case(
        before="""
            def forward(self, x):
                index = self.a(x)[0, :2].argmax().item()
                return self.layers[index](x)
        """,
        after="""
            def flow(self, x):
                index = x.through(self.a)[0, :2].argmax().through(torch.Tensor.item)
                return x.through(self.layers[index])
        """,
    ),
    # A setting chooses: it is the same module in every call.
    Case(
        before="""
            def forward(self, x):
                return self.layers[self.steps - 1](x)
        """,
        after="""
            def flow(self, x):
                return x.through(self.layers[self.steps - 1])
        """,
    ),
)


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write the call of a module that a tensor chooses as a switch."""
    del live
    last = tail[-1]
    if last.op not in SIMPLE:
        return None
    exprs = tuple(_routed(expr, tail[:-1]) for expr in last.exprs)
    if all(new is old for new, old in zip(exprs, last.exprs, strict=True)):
        return None
    return Match(count=1, stmt=replace(last, exprs=tuple(straighten(expr) for expr in exprs)))


def _routed(expr: Expr, earlier: Block) -> Expr:
    if expr.op in {"lambda", "comprehension", "format", "other"}:
        return expr
    inner = rebuilt(expr, tuple(_routed(part, earlier) for part in expr.parts))
    if inner.op != "through" or len(inner.parts) != 2 or inner.parts[1].op != "index":
        return inner
    value, chosen = inner.parts
    modules, index = chosen.parts[0], _as_tensor(chosen.parts[1])
    if modules.maker != "torch.nn.ModuleList" or not _is_choice(index, earlier):
        return inner
    # The index is found before the value is made: only a variable is the same before and after.
    if value.op != "name" and index.op != "name":
        return inner
    return Expr(
        op="switch",
        parts=(value, index, modules),
        labels=("", ""),
        kind="flow",
        origin=place(inner),
    )


def _as_tensor(index: Expr) -> Expr:
    """Return the tensor that an index turns into an integer for a list of Python: `i.through(int)`."""
    asked = index.op in {"through", "apply"} and len(index.parts) == 2
    if not asked or "int" not in {part.name for part in index.parts if part.op == "name"}:
        return index
    place_of_value = 0 if index.op == "through" else 1
    return index.parts[place_of_value]


def _is_choice(index: Expr, earlier: Block) -> bool:
    """Return True if an index comes from `argmax`: the number of a module, as a tensor."""
    if index.kind != "flow":
        return False
    if index.op == "call":
        return index.parts[0].name == "argmax" and index.role in {"method", "torch"}
    if index.op == "through":
        return index.parts[1].dotted == "torch.argmax"
    if index.op != "name":
        return False
    for stmt in reversed(earlier):
        if index.name in {name for inner in statements((stmt,)) for name in bound_names(inner)}:
            single = stmt.op == "assign" and len(stmt.targets) == 1
            value = stmt.exprs[0] if single and stmt.targets[0].op == "name" else None
            return value is not None and value.op != "name" and _is_choice(value, ())
    return False
