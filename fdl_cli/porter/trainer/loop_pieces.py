"""A training loop cut at its step, and the statements that leave a loop."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.lower.names import FunctionNode


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The body of a loop: the loss, the backward pass, the step, and the statements that follow.

    `between` lies between the backward pass and the step, and may as well come after it.
    """

    loop: ast.For
    backward: ast.Expr
    step: ast.Expr
    loss: ast.expr
    train: tuple[ast.stmt, ...]
    between: tuple[ast.stmt, ...]
    after: tuple[ast.stmt, ...]


Jump = ast.Break | ast.Continue | ast.Return


def own_jumps(statements: Iterable[ast.stmt], *, looping: bool = False) -> Iterator[Jump]:
    """Yield the jumps that leave a turn of the loop around the statements.

    A `break` of a loop inside of them (`looping`) is that loop's own matter.
    """
    for node in statements:
        match node:
            case ast.Return():
                yield node
            case ast.Break() | ast.Continue():
                if not looping:
                    yield node
            case ast.For() | ast.While() | ast.AsyncFor():
                yield from own_jumps(node.body, looping=True)
                yield from own_jumps(node.orelse, looping=looping)
            case _ if isinstance(node, FunctionNode | ast.ClassDef):
                pass
            case _:
                yield from own_jumps(_inner(node), looping=looping)


def _inner(node: ast.stmt) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body
