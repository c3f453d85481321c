"""Sources of the lambdas that a graph calls, so that a picture says more of one than `function`.

    x.through(lambda t: t.relu() + 1)    ->  lambda t: t.relu() + 1

Several lambdas may begin on one line. The instructions of a function know their columns, so its last one lies
in the body of the right lambda.
"""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import CodeType


def lambda_texts(constants: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Return the sources of lambdas by the name that descriptions call them by.

    Args:
        constants: the objects that the code of each plan names. A name that means different lambdas in two
            plans is left out.
    """
    found: dict[str, str] = {}
    for each in constants:
        for name, value in each.items():
            if isinstance(value, FunctionType) and value.__name__ == "<lambda>":
                text = lambda_text(value)
                found[name] = text if found.get(name, text) == text else ""
    return {name: text for name, text in found.items() if text}


def lambda_text(function: FunctionType) -> str:
    """Return the source of a lambda in one line, empty if it is not known.

    Example:
        >>> from flodl.inspect.facts.lambdas import lambda_text
        >>> lambda_text(eval("lambda x: x + 1"))
        ''
    """
    code = function.__code__
    spot = _last_spot(code)
    bodies = [
        (_start(each.body), each)
        for each in _lambdas(code.co_filename)
        if each.lineno == code.co_firstlineno
        and _start(each.body) <= spot <= _end(each.body)
        and _parameters(each)
        == code.co_varnames[: len(_parameters(each))]  # the file may have changed
    ]
    # A lambda may lie in the body of another one: the inner one begins later.
    return ast.unparse(max(bodies, key=lambda each: each[0])[1]) if bodies else ""


def _last_spot(code: CodeType) -> tuple[int, int]:
    return max(
        (line, column)
        for line, _, column, _ in code.co_positions()
        if line is not None and column is not None
    )


def _parameters(node: ast.Lambda) -> tuple[str, ...]:
    args = node.args
    extra = (each for each in (args.vararg, args.kwarg) if each is not None)
    return tuple(each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, *extra))


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


@lru_cache(maxsize=8)
def _lambdas(file: str) -> tuple[ast.Lambda, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # such as a file that has changed since, or a cell with magic commands
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Lambda))
