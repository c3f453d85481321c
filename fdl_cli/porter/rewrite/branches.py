"""Parallel branches from one value, put together by one operation.

Before: torch.cat([self.a(x), self.c(self.b(x))], dim=1)
After:  x.split(self.a, (self.b, self.c)).merge(Cat(dim=1))
"""

from dataclasses import replace

from fdl_cli.porter.ir.expressions import Expr, place
from fdl_cli.porter.ir.statements import Block
from fdl_cli.porter.rewrite.method_chain import head, spine
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.stages import as_stage, branch
from fdl_cli.porter.rewrite.window import Window, open_window

CASES = (
    Case(
        before="""
            def forward(self, x):
                a = self.a(x)
                b = self.b(x)
                b = self.c(b)
                return torch.cat([a, b], dim=1)
        """,
        after="""
            def flow(self, x):
                return x.split(self.a, (self.b, self.c)).merge(Cat(dim=1))
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                outputs = [self.a(x), self.b(x), self.c(x)]
                return self.head(torch.stack(outputs))
        """,
        after="""
            def flow(self, x):
                return x.split(self.a, self.b, self.c).merge(Stack(dim=0)).through(self.head)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                return self.a(x) * F.silu(self.b(x))
        """,
        after="""
            def flow(self, x):
                return x.split(self.a, (self.b, F.silu)).merge(Mul())
        """,
    ),
)
LEFT_ALONE = (
    # The first two are added before the third branch runs.
    Case(
        before="""
            def forward(self, x):
                return self.a(x) + self.b(x) + self.c(x)
        """,
        after="""
            def flow(self, x):
                return x.through(self.a) + x.through(self.b) + x.through(self.c)
        """,
    ),
    # One of the parts is the value itself: there is nothing to branch into.
    Case(
        before="""
            def forward(self, x):
                return torch.cat([x, self.a(x)], 1)
        """,
        after="""
            def flow(self, x):
                return torch.cat([x, x.through(self.a)], 1)
        """,
    ),
    # They ran in another order than they are put together.
    Case(
        before="""
            def forward(self, x):
                b = self.b(x)
                a = self.a(x)
                return torch.cat([a, b], 1)
        """,
        after="""
            def flow(self, x):
                b = x.through(self.b)
                a = x.through(self.a)
                return torch.cat([a, b], 1)
        """,
    ),
    # One branch needs more than its value.
    Case(
        before="""
            def forward(self, x, y):
                return torch.cat([self.a(x), self.mix(x, y)], 1)
        """,
        after="""
            def flow(self, x, y):
                return torch.cat([x.through(self.a), x.through(self.mix, y)], 1)
        """,
    ),
)

_LISTS = {"torch.cat": "Cat", "torch.concat": "Cat", "torch.stack": "Stack"}
_PAIRS = {"torch.mul": "Mul", "torch.max": "Max", "torch.maximum": "Max"}
_MAX_WINDOW = 12
Merger = tuple[str, tuple[Expr, ...], Expr | None]


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write an operation over several branches of one value as a split and a merge."""
    window = open_window(tail, live)
    if window is None or not any(merger(node) for node in spine(window.value)):
        return None
    while window is not None and window.count <= _MAX_WINDOW:
        found = _in_window(window)
        if found is not None:
            return found
        window = window.wider()
    return None


def _in_window(window: Window) -> Match | None:
    value = window.value
    for node in spine(value):
        found = merger(node)
        if found is None or found[0] == "Add":
            # A sum of three adds the first two before the third branch runs.
            continue
        name, parts, dim = found
        word = _split_merge(node, name, parts, dim)
        if word is None:
            continue
        result = _replaced(value, node, word)
        if window.keeps_order(result):
            return Match(count=window.count, stmt=window.finish(result))
    return None


def _replaced(value: Expr, old: Expr, new: Expr) -> Expr:
    if value is old:
        return new
    parts = tuple(_replaced(part, old, new) for part in value.parts)
    return replace(value, parts=parts)


def merger(node: Expr) -> Merger | None:
    """Return the merge, its parts and its dimension, when the node puts several values together."""
    if node.op == "binary" and node.name == "*":
        return "Mul", node.parts, None
    if node.op == "binary" and node.name == "+":
        parts = _summands(node)
        return ("Add", parts, None) if len(parts) > 2 else None
    if node.op != "call" or node.role != "torch":
        return None
    name = _PAIRS.get(node.parts[0].dotted)
    if name is not None and node.labels == ("", ""):
        return name, node.parts[1:], None
    name = _LISTS.get(node.parts[0].dotted)
    if name is None or not node.labels or node.labels[0] != "" or len(node.labels) > 2:
        return None
    items, *rest = node.parts[1:]
    if rest and node.labels[1] not in {"", "dim", "axis"}:
        return None
    if items.op == "name":
        return name, (items,), rest[0] if rest else None
    if items.op not in {"list", "tuple"}:
        return None
    return name, items.parts, rest[0] if rest else None


def _summands(node: Expr) -> tuple[Expr, ...]:
    left, right = node.parts
    if left.op == "binary" and left.name == "+":
        return (*_summands(left), right)
    return (left, right)


def dimension(name: str, dim: Expr | None) -> tuple[Expr, ...]:
    """Return the dimension that a merge is written with, where it has one."""
    if dim is None and name in {"Cat", "Stack"}:
        dim = Expr(op="constant", name="0", kind="python")
    return () if dim is None else (dim,)


def _split_merge(node: Expr, name: str, parts: tuple[Expr, ...], dim: Expr | None) -> Expr | None:
    branches = [branch(part) for part in parts]
    if len(branches) < 2:
        return None
    stages = []
    heads = set()
    for item in branches:
        if item is None or not item.stages:
            return None
        heads.add(item.head)
        stages.append(as_stage(item.stages))
    if len(heads) != 1:
        return None
    start = head(parts[0])
    if start.op != "name":
        return None
    extra = dimension(name, dim)
    return Expr(
        op="merge",
        name=name,
        parts=(start, *stages, *extra),
        labels=(*("" for _ in stages), *("dim" for _ in extra)),
        kind="flow",
        origin=place(node),
    )
