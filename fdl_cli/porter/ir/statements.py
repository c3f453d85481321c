"""Statements of a forward as frozen trees."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from fdl_cli.porter.ir.expressions import Expr, names_read, walk
from fdl_cli.porter.ir.source import Span

StmtOp = Literal[
    "assign", "augment", "expr", "return", "if", "for", "while", "with", "assert", "raise",
    "delete", "pass", "break", "continue", "docstring", "define", "other",
]  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Stmt:
    """One statement; `sources` are the statements of the source which it stands for, in order.

    `exprs` are the value (assign, augment, expr, return), the test (if, while, assert), the
    iterable (for) or the context managers (with); `targets` what is bound. `name` is the operator
    of an augmented assignment. `lead` is the text before the value (`x: Tensor =`, `return`), where
    there is one. While `sources` has one entry, only the expressions may differ
    from the source; with several, the statement replaces them all.
    """

    op: StmtOp
    targets: tuple[Expr, ...] = ()
    exprs: tuple[Expr, ...] = ()
    name: str = ""
    body: tuple["Stmt", ...] = ()
    orelse: tuple["Stmt", ...] = ()
    sources: tuple[Span, ...] = ()
    lead: Span | None = None


Block = tuple[Stmt, ...]

SIMPLE: frozenset[str] = frozenset({"assign", "augment", "expr", "return"})


def statements(block: Block) -> Iterator[Stmt]:
    """Yield every statement of a block, nested ones after their owner."""
    for stmt in block:
        yield stmt
        yield from statements(stmt.body)
        yield from statements(stmt.orelse)


def expressions(block: Block) -> Iterator[Expr]:
    """Yield every node of every expression of a block, targets included."""
    for stmt in statements(block):
        for expr in (*stmt.exprs, *stmt.targets):
            yield from walk(expr)


def bound_names(stmt: Stmt) -> frozenset[str]:
    """Return the variables that the statement itself binds, without its body."""
    names: set[str] = set()
    for target in stmt.targets:
        names |= target_names(target)
    for expr in stmt.exprs:
        names |= {node.name for node in walk(expr) if node.op == "assignment"}
    if stmt.op == "define":
        names.add(stmt.name)
    return frozenset(names)


def target_names(target: Expr) -> frozenset[str]:
    """Return the variables bound by an assignment target; `x[0] = y` and `x.a = y` bind none."""
    if target.op == "name":
        return frozenset({target.name})
    if target.op in {"tuple", "list", "starred"}:
        return frozenset().union(*(target_names(part) for part in target.parts))
    return frozenset()


def read_names(stmt: Stmt) -> frozenset[str]:
    """Return the variables that the statement itself reads, without its body."""
    names: set[str] = set()
    for expr in stmt.exprs:
        names |= names_read(expr)
    for target in stmt.targets:
        names |= names_read(target) - (target_names(target) if stmt.op != "augment" else set())
    return frozenset(names)
