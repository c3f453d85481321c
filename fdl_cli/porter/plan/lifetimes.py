"""Variables that are deleted to free memory: a plan lets go of every value after its last use.

Before: h = self.a(x); y = self.b(h); del h; return self.c(y)
After:  return x.through(self.a).through(self.b).through(self.c)
"""

from dataclasses import replace

from fdl_cli.porter.ir.statements import Block, Stmt


def without_deletes(block: Block) -> Block:
    """Return the block without `del` of variables; one that is all of a block stays."""
    kept = tuple(stmt for stmt in block if not _is_delete(stmt)) or block
    made = tuple(_inner(stmt) for stmt in kept)
    same = len(made) == len(block) and all(a is b for a, b in zip(made, block, strict=True))
    return block if same else made


def _inner(stmt: Stmt) -> Stmt:
    body, orelse = without_deletes(stmt.body), without_deletes(stmt.orelse)
    if body is stmt.body and orelse is stmt.orelse:
        return stmt
    return replace(stmt, body=body, orelse=orelse)


def _is_delete(stmt: Stmt) -> bool:
    """Return True if only variables are deleted, and no items of containers."""
    return stmt.op == "delete" and stmt.name == "variables"
