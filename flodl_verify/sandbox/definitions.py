"""Definitions that a module lacks when its top level stops early.

A missing package, a required argument or a data set that is not there ends a script before its
classes are defined. Statements that only define names are run all the same: the classes can be compared
without what stopped the script, unless they need it, and then they say so.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sandbox.containment import StopRunError

_DEFINING = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign,
    ast.AnnAssign, ast.Pass,
)  # fmt: skip


def define_rest(module: ModuleType, file: Path, text: bytes | None = None) -> None:
    """Run the top-level statements that define names which the module does not have.

    The statements are those of `text`; without one, of the file. Nothing is raised: a statement that
    fails leaves its names undefined.
    """
    tree = attempt(lambda: ast.parse(file.read_bytes() if text is None else text))
    if isinstance(tree, Failure):
        return
    future = [item for item in tree.body if _is_future(item)]
    for statement in tree.body:
        if _only_defines(statement) and any(
            name not in vars(module) for name in _names_bound(statement)
        ):
            _run(ast.Module(body=[*future, statement], type_ignores=[]), module, file)


def _run(tree: ast.Module, module: ModuleType, file: Path) -> None:
    code = attempt(lambda: compile(tree, str(file), "exec", dont_inherit=True))
    if isinstance(code, Failure):
        return
    try:
        # Names of Python that the program replaces are its own; those of this module are a copy.
        vars(module)["__builtins__"] = builtins
        attempt(lambda: exec(code, vars(module)), file)
    except StopRunError:
        return  # a backward pass: training is of no use here


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _only_defines(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If | ast.Try):
        handlers = statement.handlers if isinstance(statement, ast.Try) else []
        inner = [*statement.body, *statement.orelse, *(s for h in handlers for s in h.body)]
        return all(_only_defines(item) for item in inner)
    return isinstance(statement, _DEFINING)


def _names_bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a defining statement binds in its module."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for name in statement.names:
            yield name.asname or name.name.partition(".")[0]
    elif isinstance(statement, ast.If | ast.Try):
        for inner in ast.iter_child_nodes(statement):
            body = inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
            for item in body:
                if isinstance(item, ast.stmt):
                    yield from _names_bound(item)
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
