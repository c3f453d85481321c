"""Variables that are still read after each statement; when in doubt, all of them.

Example:
    def f(v):          reads h when it is called
        return v + h
    h = self.a(x)
    y = self.b(h)      h is still read: by f, below
    return f(y)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, final

from fdl_cli.porter.ir.expressions import Expr, names_read
from fdl_cli.porter.ir.statements import Block, Stmt, bound_names, read_names, statements

Names = frozenset[str]
NOTHING: Names = frozenset()
# A generator that one of these gets is at its end when they return, and a function has been called.
_TAKES_ALL = frozenset(
    {
        "all", "any", "cat", "concat", "dict", "join", "list", "max", "min", "prod", "reduce", "set",
        "sorted", "stack", "sum", "tuple",
    }
)  # fmt: skip
# After these the next statement is not the one that follows, or a variable is read later.
_ELSEWHERE = frozenset({"break", "continue", "define"})


@final
@dataclass(frozen=True, slots=True)
class Liveness:
    """The liveness of the variables of one method.

    Attributes:
        late: variable -> variables that the functions or generators in it read when they run.
    """

    late: Mapping[str, Names]

    @property
    def fixed(self) -> Names:
        """The variables that some function or generator reads when it runs."""
        return NOTHING.union(*self.late.values())

    @classmethod
    def of(cls, method: Block) -> Self:
        """Return the liveness of a method."""
        late: dict[str, Names] = {}
        size = -1
        while size != (size := sum(map(len, late.values()))):
            for stmt in statements(method):
                read = _read_late(stmt) | NOTHING.union(
                    *(late.get(n, NOTHING) for n in read_names(stmt))
                )
                for name in _holders(stmt) if read else ():
                    late[name] = late.get(name, NOTHING) | read
        return cls(late)

    def after(self, block: Block, after: Names, around: Names) -> tuple[Names, ...]:
        """Return, per statement, the variables that may be read once it is done.

        `after` is read after the block; `around` is read elsewhere in the loops around it.
        """
        result: list[Names] = []
        live = after
        for stmt in reversed(block):
            result.append(live)
            live = self.before(stmt, live, around)
        return tuple(reversed(result))

    def before(self, stmt: Stmt, live: Names, around: Names) -> Names:
        """Return the variables that may be read before a statement, given those read after it."""
        reads = self.reads(stmt)
        if stmt.op == "return":
            return reads
        if stmt.op in {"break", "continue"}:
            return live | around
        if stmt.op in {"for", "while"}:
            return live | self.loop_reads(stmt)
        if stmt.op == "if":
            ways = (self._block(each, live, around) for each in (stmt.body, stmt.orelse))
            return reads.union(*ways)
        if stmt.op == "with":
            # Its body runs once, or up to an error that the manager ends.
            return live | self._block(stmt.body, live, around) | reads
        kept = live - bound_names(stmt) if stmt.op == "assign" else live
        return kept | reads

    def loop_reads(self, stmt: Stmt) -> Names:
        """Return the variables that a loop may read from before it, or from an earlier round.

        Its own target is bound again in every round.
        """
        inner = tuple(statements((*stmt.body, *stmt.orelse)))
        every = NOTHING.union(*(self.reads(each) for each in inner))
        if not any(each.op in _ELSEWHERE for each in inner):
            ways = (self._block(each, NOTHING, every) for each in (stmt.body, stmt.orelse))
            every = NOTHING.union(*ways)
        return every - bound_names(stmt) | self.reads(stmt)

    def reads(self, stmt: Stmt) -> Names:
        """Return the variables that the statement itself reads, and those that its functions may read."""
        names = read_names(stmt)
        return names.union(*(self.late.get(name, NOTHING) for name in names))

    def _block(self, block: Block, after: Names, around: Names) -> Names:
        live = after
        for stmt in reversed(block):
            live = self.before(stmt, live, around)
        return live


def _holders(stmt: Stmt) -> Names:
    """Return the variables that hold the functions which a statement makes or takes."""
    if stmt.op == "expr":
        # `fs.append(lambda v: v + h)` puts one into a list.
        return read_names(stmt)
    return frozenset({stmt.name}) if stmt.op in {"define", "other"} else bound_names(stmt)


def _read_late(stmt: Stmt) -> Names:
    """Return the variables that the functions and generators which a statement makes read when they run."""
    if stmt.op == "define":
        return read_names(stmt)
    return NOTHING.union(*(_late(expr) for expr in stmt.exprs))


def _late(expr: Expr) -> Names:
    # Most lambdas stay verbatim, which makes them `other`.
    if expr.op in {"lambda", "other"} or (expr.op == "comprehension" and expr.name == "generator"):
        return names_read(expr)
    if expr.op == "call" and expr.parts[0].name in _TAKES_ALL:
        return NOTHING
    return NOTHING.union(*map(_late, expr.parts))
