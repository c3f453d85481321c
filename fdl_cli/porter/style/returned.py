"""A value that every branch ends with is returned there, not named and returned below.

Before: if self.skip: ...; out = self.a(h) else: ...; out = self.b(h)
        return out
After:  if self.skip: ...; return h.through(self.a) else: ...; return h.through(self.b)
"""

from dataclasses import replace

from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.rewrite.pattern import Case, Match

CASES = (
    Case(
        before="""
            def forward(self, x, y):
                if self.training:
                    h = self.a(x)
                    out = h * h.sigmoid()
                else:
                    out = self.mix(x, y)

                return out
        """,
        after="""
            def flow(self, x, y):
                if self.training:
                    h = x.through(self.a)
                    return h * h.sigmoid()
                else:
                    return x.through(self.mix, y)
        """,
    ),
    # One of several, and one that ends otherwise.
    Case(
        before="""
            def forward(self, x, y):
                if self.steps == 1:
                    x = self.a(x)
                elif self.steps == 2:
                    x = self.mix(x, y)
                else:
                    raise ValueError(self.steps)
                return x
        """,
        after="""
            def flow(self, x, y):
                if self.steps == 1:
                    return x.through(self.a)
                elif self.steps == 2:
                    return x.through(self.mix, y)
                else:
                    raise ValueError(self.steps)
        """,
    ),
)
LEFT_ALONE = (
    # One of the branches leaves the value as it is.
    Case(
        before="""
            def forward(self, x, y):
                if self.steps == 1:
                    x = self.a(x)
                elif self.steps == 2:
                    x = self.mix(x, y)
                return x
        """,
        after="""
            def flow(self, x, y):
                if self.steps == 1:
                    x = x.through(self.a)
                elif self.steps == 2:
                    x = x.through(self.mix, y)
                return x
        """,
    ),
    # The returned value is made of it.
    Case(
        before="""
            def forward(self, x, y):
                if self.training:
                    h = self.a(x)
                    out = h * h.sigmoid()
                else:
                    out = self.mix(x, y)
                return self.b(out)
        """,
        after="""
            def flow(self, x, y):
                if self.training:
                    h = x.through(self.a)
                    out = h * h.sigmoid()
                else:
                    out = x.through(self.mix, y)
                return out.through(self.b)
        """,
    ),
)

_ENDS = frozenset({"return", "raise"})


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Let the branches before a return give their values themselves."""
    del live
    if len(tail) < 2:
        return None
    choice, last = tail[-2:]
    named = last.op == "return" and len(last.exprs) == 1 and last.exprs[0].op == "name"
    if not named or choice.op != "if":
        return None
    ways = _returning(choice, last)
    return None if ways is None or ways == choice else Match(count=2, stmt=ways)


def _returning(choice: Stmt, last: Stmt) -> Stmt | None:
    """Return the branches with the last return in each that ends with the value, if all can end."""
    body, orelse = _ended(choice.body, last), _ended(choice.orelse, last)
    if body is None or orelse is None:
        return None
    return replace(choice, body=body, orelse=orelse)


def _ended(block: Block, last: Stmt) -> Block | None:
    if not block:
        return None
    end = block[-1]
    if end.op in _ENDS:
        return block
    made: Stmt | None = None
    if end.op == "if":
        made = _returning(end, last)
    elif end.op == "assign" and _binds(end) == last.exprs[0].name:
        made = replace(end, op="return", targets=(), lead=last.lead)
    return None if made is None else (*block[:-1], made)


def _binds(stmt: Stmt) -> str:
    """Return the variable that an assignment binds, nothing if it binds anything else."""
    is_plain = len(stmt.targets) == 1 and stmt.targets[0].op == "name"
    return stmt.targets[0].name if is_plain else ""
