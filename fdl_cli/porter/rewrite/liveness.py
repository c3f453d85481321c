"""Variables that are still read after each statement; when in doubt, all of them."""

from fdl_cli.porter.ir.statements import Block, Stmt, bound_names, read_names, statements

Names = frozenset[str]
NOTHING: Names = frozenset()
# After these the next statement is not the one that follows, or a variable is read later.
_ELSEWHERE = frozenset({"break", "continue", "define"})


def live_after(block: Block, after: Names, around: Names) -> tuple[Names, ...]:
    """Return, per statement, the variables that may be read once it is done.

    `after` is read after the block; `around` is read elsewhere in the loops around it.
    """
    result: list[Names] = []
    live = after
    for stmt in reversed(block):
        result.append(live)
        live = live_before(stmt, live, around)
    return tuple(reversed(result))


def live_before(stmt: Stmt, live: Names, around: Names) -> Names:
    """Return the variables that may be read before a statement, given those read after it."""
    if stmt.op == "return":
        return read_names(stmt)
    if stmt.op in {"break", "continue"}:
        return live | around
    if stmt.op in {"for", "while"}:
        return live | loop_reads(stmt)
    if stmt.op == "if":
        ways = _block_before(stmt.body, live, around) | _block_before(stmt.orelse, live, around)
        return ways | read_names(stmt)
    if stmt.op == "with":
        # Its body runs once, or up to an error that the manager ends.
        return live | _block_before(stmt.body, live, around) | read_names(stmt)
    kept = live - bound_names(stmt) if stmt.op == "assign" else live
    return kept | read_names(stmt)


def loop_reads(stmt: Stmt) -> Names:
    """Return the variables that a loop may read from before it, or from an earlier round.

    Its own target is bound again in every round.
    """
    inner = tuple(statements((*stmt.body, *stmt.orelse)))
    every = NOTHING.union(*(read_names(each) for each in inner))
    if not any(each.op in _ELSEWHERE for each in inner):
        every = _block_before(stmt.body, NOTHING, every) | _block_before(
            stmt.orelse, NOTHING, every
        )
    return every - bound_names(stmt) | read_names(stmt)


def _block_before(block: Block, after: Names, around: Names) -> Names:
    live = after
    for stmt in reversed(block):
        live = live_before(stmt, live, around)
    return live
