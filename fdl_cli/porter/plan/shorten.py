"""Apply the patterns to every block of a method, from the first statement to the last."""

from dataclasses import replace

from fdl_cli.porter.ir.statements import Block, Stmt
from fdl_cli.porter.plan import PATTERNS
from fdl_cli.porter.plan.liveness import NOTHING, Names, live_after, loop_reads
from fdl_cli.porter.plan.pattern import Match


def shorten(block: Block, after: Names = NOTHING, around: Names = NOTHING) -> Block:
    """Return the block with every pattern applied until none matches any more."""
    done: list[Stmt] = []
    for stmt, live in zip(block, live_after(block, after, around), strict=True):
        done.append(_inner(stmt, live, around))
        while (found := _first_match(tuple(done), live)) is not None:
            done[-found.count :] = [*found.before, found.stmt]
    return tuple(done)


def _inner(stmt: Stmt, live: Names, around: Names) -> Stmt:
    if not stmt.body and not stmt.orelse:
        return stmt
    inside = around
    after = live
    if stmt.op in {"for", "while"}:
        # What any round reads may be read after the last statement of a round.
        inside = around | loop_reads(stmt) | live
        after = inside
    body = shorten(stmt.body, after, inside)
    orelse = shorten(stmt.orelse, live, around)
    return replace(stmt, body=body, orelse=orelse)


def _first_match(done: Block, live: Names) -> Match | None:
    for pattern in PATTERNS:
        found = pattern.match(done, live)
        if found is not None:
            return found
    return None
