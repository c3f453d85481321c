"""A value with one reader moves to that reader, if its name says nothing or all fits on a line.

Before: mask = mask.sigmoid(); return self.mix(x, mask)
After:  return x.through(self.mix, mask.sigmoid())
"""

import re
from dataclasses import replace

from fdl_cli.porter.ir.expressions import (
    FLOW_WORDS,
    Expr,
    count_name,
    inside_scope,
    may_be_skipped,
    names_read,
    substitute,
    walk,
)
from fdl_cli.porter.ir.statements import Block, Stmt, bound_names, read_names
from fdl_cli.porter.rewrite.effects import effects
from fdl_cli.porter.rewrite.method_chain import straighten
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.width import depth, widest, width

CASES = (
    Case(
        before="""
            def forward(self, x, y):
                y = y.sigmoid()
                return self.mix(x, y)
        """,
        after="""
            def flow(self, x, y):
                return x.through(self.mix, y.sigmoid())
        """,
    ),
    Case(
        before="""
            def forward(self, x, y):
                x = self.a(x)
                out = torch.cat([x, y], dim=1)
                score = out.mean(dim=1)
                return out, score
        """,
        after="""
            def flow(self, x, y):
                out = torch.cat([x.through(self.a), y], dim=1)
                return out, out.mean(dim=1)
        """,
    ),
    # A list that is made for one call, and a value beside the main one.
    Case(
        before="""
            def forward(self, x, y):
                x = F.relu(self.a(x) * y)
                token = y.exp().sum(0, keepdim=True)
                x = torch.cat([token, x], 0)
                outputs = [x, y, x * x]
                return torch.cat(outputs, 0)
        """,
        after="""
            def flow(self, x, y):
                x = (x.through(self.a) * y).through(F.relu)
                x = torch.cat([y.exp().sum(0, keepdim=True), x], 0)
                return torch.cat([x, y, x * x], 0)
        """,
    ),
)
LEFT_ALONE = (
    # In its place it would be computed after `y` is.
    Case(
        before="""
            def forward(self, x, y):
                h = self.a(x)
                return self.mix(self.b(y), h)
        """,
        after="""
            def flow(self, x, y):
                h = x.through(self.a)
                return y.through(self.b).through(self.mix, h)
        """,
    ),
    # In its place it would not always be computed.
    Case(
        before="""
            def forward(self, x, y):
                h = self.a(x)
                return h * y if self.training else y
        """,
        after="""
            def flow(self, x, y):
                h = x.through(self.a)
                return h * y if self.training else y
        """,
    ),
    # A list of some values with a name and some without reads badly.
    Case(
        before="""
            def forward(self, x):
                x1 = F.relu(x)
                x2 = self.a(x1 + x1)
                x3 = self.b(x1)
                return x1, x2, x3
        """,
        after="""
            def flow(self, x):
                x1 = F.relu(x)
                x2 = (x1 + x1).through(self.a)
                x3 = x1.through(self.b)
                return x1, x2, x3
        """,
    ),
)

_MAX_WIDTH = 100
_SHORT = 88
_NESTED = 80
_MAX_OPERAND = 40
_DIGITS = "0123456789_"
_MAX_DEPTH = 1
_MAX_LINKS = 3
_READABLE = frozenset(
    {
        "name", "index", "call", "binary", "unary", "tuple", "list",
        "through", "apply", "also", "also_with", "merge",
    }
)  # fmt: skip
# Their text binds to its neighbours, or is a row by itself: only among arguments.
_ARGUMENTS_ONLY = frozenset({"binary", "unary", "tuple", "list"})
# Usual names of authors for a value without a meaning.
_PLACEHOLDER = re.compile(
    r"_*([abfghoxy]|out|outs|outputs?|res|ret|results?|tmp|temp|feats?|features?|inp|inputs?"
    r"|hidden|hidden_states?|emb|vals?|values?|fea)_?[0-9]*_?"
)


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write the value of the statement before the last one where the last one reads it."""
    if len(tail) < 2:
        return None
    first, last = tail[-2:]
    if not _defines(first) or last.op not in {"assign", "return"} or len(last.exprs) != 1:
        return None
    name, value, use = first.targets[0].name, first.exprs[0], last.exprs[0]
    if count_name(use, name) != 1 or inside_scope(use, name) or may_be_skipped(use, name):
        return None
    if name in live and name not in bound_names(last):
        return None
    if name in read_names(replace(last, exprs=())):
        return None
    joint = straighten(substitute(use, name, value))
    if not _reads_well(name, value, use, joint):
        return None
    if [*effects(value), *effects(use)] != list(effects(joint)):
        return None
    stmt = replace(last, exprs=(joint,), sources=(*first.sources, *last.sources))
    if _has_sibling(tail[:-2], joint, last, name) and match((*tail[:-2], stmt), live) is None:
        return None
    return Match(count=2, stmt=stmt)


def _defines(stmt: Stmt) -> bool:
    return stmt.op == "assign" and len(stmt.targets) == 1 and stmt.targets[0].op == "name"


def _reads_well(name: str, value: Expr, use: Expr, joint: Expr) -> bool:
    if value.op not in _READABLE or any(node.op == "assignment" for node in walk(joint)):
        return False
    says_something = not _PLACEHOLDER.fullmatch(name) and name not in names_read(value)
    if value.op in _ARGUMENTS_ONLY and not _is_argument(use, name):
        is_operand = value.op in {"binary", "unary"} and width(value) <= _MAX_OPERAND
        if says_something or not is_operand:
            return False
    if any(_is_listed(part, name) for part in walk(use)):
        return False
    links = sum(1 for node in walk(value) if node.op in FLOW_WORDS)
    if says_something and _chooses(use, name):
        return False
    room = _SHORT if says_something else _MAX_WIDTH
    if value.op == use.op == "apply":
        # No chain: the first operation is written inside the next.
        room = _NESTED
    return widest(joint) <= room and depth(joint) <= _MAX_DEPTH and links <= _MAX_LINKS


def _chooses(use: Expr, name: str) -> bool:
    """Return True if a variable is an index, or chooses one of several ways."""
    return any(
        node.op in {"index", "switch"} and count_name(node.parts[1], name) for node in walk(use)
    )


def _is_listed(expr: Expr, name: str) -> bool:
    """Return True if a variable is in a row of its kind: `x1, x2, x3`."""
    stem = name.rstrip(_DIGITS)
    parts = expr.parts[1:] if expr.op == "also" else expr.parts
    named = [part.name for part in parts if part.op == "name"]
    return name in named and any(
        other != name and other.rstrip(_DIGITS) == stem for other in named
    )


def _has_sibling(before: Block, joint: Expr, last: Stmt, name: str) -> bool:
    """Return True if the value before is in the same list: they go there together or not."""
    if not before or not _defines(before[-1]):
        return False
    other = before[-1].targets[0].name
    if other in bound_names(last):
        # It keeps its name.
        return False
    return count_name(joint, other) == 1 and any(
        {name, other} <= {part.name for part in node.parts if part.op == "name"}
        for node in walk(last.exprs[0])
        if node.op in {"tuple", "list"}
    )


def _is_argument(use: Expr, name: str) -> bool:
    """Return True if a variable is between brackets or commas: nothing binds to it there."""
    for node in walk(use):
        if node.op in {"call", "through", "apply", "also"}:
            among: tuple[Expr, ...] = node.parts[1:]
        elif node.op in {"tuple", "list"}:
            among = node.parts
        else:
            continue
        if any(part.op == "name" and part.name == name for part in among):
            return True
    return False
