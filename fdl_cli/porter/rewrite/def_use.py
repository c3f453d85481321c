"""Lineage of the values of a method: the earlier values that each one was made of."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.ir.expressions import FLOW_WORDS, Expr, walk
from fdl_cli.porter.ir.statements import Stmt, bound_names, target_names

Tokens = frozenset[int]
NOWHERE: Tokens = frozenset()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The origin of a value: the values it may be, and those it was made of.

    `same` are the tokens it may stand for, `made_of` those it was computed from, `by_stage` those
    among them with at least one stage in between.
    """

    same: Tokens = NOWHERE
    made_of: Tokens = NOWHERE
    by_stage: Tokens = NOWHERE

    @property
    def all(self) -> Tokens:
        """Return everything that the value is or was made of."""
        return self.same | self.made_of


@final
class Lineages:
    """Follows the values of one method from statement to statement."""

    def __init__(self, params: tuple[str, ...]) -> None:
        self._next = 0
        self.values = {name: Lineage(same=self._token()) for name in params}

    def of(self, expr: Expr) -> Lineage:
        """Return the lineage of an expression."""
        if expr.op == "name":
            return self.values.get(expr.name, Lineage())
        if expr.kind == "size":  # a value with only the shape of another is not made of it
            return Lineage()
        parts = [self.of(part) for part in _flowing(expr)]
        made_of = NOWHERE.union(*(part.all for part in parts))
        by_stage = NOWHERE.union(*(part.by_stage for part in parts))
        if any(node.op in FLOW_WORDS for node in walk(expr)):
            by_stage = made_of
        return Lineage(made_of=made_of, by_stage=by_stage)

    def enter_loop(self, stmt: Stmt) -> None:
        """Take in the head of a loop."""
        for expr in stmt.exprs:
            for target in stmt.targets:
                self._bind_target(stmt, target, replace(self.of(expr), same=NOWHERE))

    def bind(self, stmt: Stmt) -> None:
        """Follow one simple statement."""
        pairs = _pairs(stmt)
        if pairs:
            row = [(target, self.of(value)) for target, value in pairs]
            for target, lineage in row:
                self._bind_target(stmt, target, lineage)
            return
        for expr in stmt.exprs:
            found = self.of(expr)
            for target in stmt.targets:
                self._bind_target(stmt, target, found)
        self._collect(stmt)
        for name in bound_names(stmt) - {n for t in stmt.targets for n in target_names(t)}:
            self.values.pop(name, None)

    def _collect(self, stmt: Stmt) -> None:
        """Follow `values.append(x)`: the items of a list are part of its lineage, too."""
        call = stmt.exprs[0] if stmt.op == "expr" else None
        if call is None or call.op != "call" or call.parts[0].op != "attribute":
            return
        callee, *others = call.parts
        owner = callee.parts[0]
        if callee.name in {"append", "insert", "extend"} and owner.op == "name":
            before = self.values.get(owner.name, Lineage())
            found = [self.of(each) for each in others]
            self.values[owner.name] = replace(
                before,
                made_of=before.made_of.union(*(each.all for each in found)),
                by_stage=before.by_stage.union(*(each.by_stage for each in found)),
            )

    def join(self, other: "dict[str, Lineage]") -> None:
        """Merge the facts at the end of another way to the same place."""
        for name in dict.fromkeys((*self.values, *other)):
            first = self.values.get(name, Lineage())
            second = other.get(name, Lineage())
            self.values[name] = Lineage(
                same=first.same | second.same,
                made_of=first.made_of | second.made_of,
                by_stage=first.by_stage | second.by_stage,
            )

    def _bind_target(self, stmt: Stmt, target: Expr, found: Lineage) -> None:
        if stmt.op == "augment":
            for name in target_names(target):
                before = self.values.get(name, Lineage())
                self.values[name] = replace(
                    before,
                    made_of=before.made_of | found.all,
                    by_stage=before.by_stage | found.by_stage,
                )
            return
        alias = target.op == "name" and bool(found.same)
        for name in target_names(target):
            known = found if alias else replace(found, same=self._token())
            self.values[name] = known

    def _token(self) -> Tokens:
        self._next += 1
        return frozenset({self._next})


def _pairs(stmt: Stmt) -> list[tuple[Expr, Expr]]:
    """Return which value of a row goes to which name: `a, residual = x, x`."""
    if stmt.op != "assign" or len(stmt.targets) != 1 or len(stmt.exprs) != 1:
        return []
    target, value = stmt.targets[0], stmt.exprs[0]
    rows = {"tuple", "list"}
    if target.op not in rows or value.op not in rows or len(target.parts) != len(value.parts):
        return []
    starred = any(part.op == "starred" for part in (*target.parts, *value.parts))
    return [] if starred else list(zip(target.parts, value.parts, strict=True))


def _flowing(expr: Expr) -> Iterator[Expr]:
    """Yield the parts that hand values on: stages are not among them."""
    every = len(expr.parts)
    stages = {
        "also": 2, "also_with": 3, "merge": every, "scan": 2, "map": every, "switch": 1,
    }  # fmt: skip
    if expr.op in stages:
        yield expr.parts[0]
        yield from expr.parts[stages[expr.op] :]
    else:
        yield from expr.parts
