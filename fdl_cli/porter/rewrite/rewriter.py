"""Application of the patterns to every block of a method, from the first statement to the last."""

from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.ir.statements import Block, Stmt, bound_names
from fdl_cli.porter.rewrite.liveness import NOTHING, Liveness, Names
from fdl_cli.porter.rewrite.pattern import Match, Pattern

Patterns = tuple[Pattern, ...]


def shorten(block: Block, patterns: Patterns) -> Block:
    """Return the block with every pattern applied until none matches any more."""
    return _Shortener(patterns, Liveness.of(block)).block(block, NOTHING, NOTHING)


@final
@dataclass(frozen=True, slots=True)
class _Shortener:
    patterns: Patterns
    liveness: Liveness

    def block(self, block: Block, after: Names, around: Names) -> Block:
        done: list[Stmt] = []
        for stmt, live in zip(block, self.liveness.after(block, after, around), strict=True):
            done.append(self._inner(stmt, live, around))
            while (found := self._first_match(self._free_tail(done), live)) is not None:
                done[-found.count :] = [*found.before, found.stmt]
        return tuple(done)

    def _free_tail(self, done: list[Stmt]) -> Block:
        """Return the last statements; none but the last binds a variable that a function reads later."""
        fixed = self.liveness.fixed
        if not fixed:
            return tuple(done)
        bound = [number for number, stmt in enumerate(done[:-1], 1) if fixed & bound_names(stmt)]
        return tuple(done[max(bound, default=0) :])

    def _inner(self, stmt: Stmt, live: Names, around: Names) -> Stmt:
        if not stmt.body and not stmt.orelse:
            return stmt
        inside = around
        after = live
        if stmt.op in {"for", "while"}:
            # A variable that any round reads may be read after the last statement of a round.
            inside = around | self.liveness.loop_reads(stmt) | live
            after = inside
        body = self.block(stmt.body, after, inside)
        orelse = self._otherwise(stmt, live, around)
        return replace(stmt, body=body, orelse=orelse)

    def _otherwise(self, stmt: Stmt, live: Names, around: Names) -> Block:
        if stmt.op == "if" and len(stmt.orelse) == 1 and stmt.orelse[0].op == "if":
            # An `elif` stays one of several ways, whatever is inside it.
            return (self._inner(stmt.orelse[0], live, around),)
        return self.block(stmt.orelse, live, around)

    def _first_match(self, done: Block, live: Names) -> Match | None:
        for pattern in self.patterns:
            found = pattern.match(done, live)
            if found is not None:
                return found
        return None
