"""Names that statements bind and mention, and whether a name can stay inside them."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import final

from fdl_cli.porter.lower.names import FunctionNode

_Inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound(nodes: Iterable[ast.AST], without: ast.AST | None = None) -> set[str]:
    """Return the names that the nodes bind in their own scope, one of them left out."""
    return {name for node in nodes for name in _bound(node, without)}


def mentioned(nodes: Iterable[ast.AST]) -> set[str]:
    """Return every name that is read or bound anywhere in the nodes, functions in them included."""
    found: set[str] = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                found.add(inner.id)
            elif isinstance(inner, ast.Global | ast.Nonlocal):
                found.update(inner.names)
        found |= bound([node])
    return found


def read_by_function(function: FunctionNode) -> set[str]:
    """Return the names that a function takes from outside of it."""
    own = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    declared = {
        name
        for node in ast.walk(function)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    return mentioned(function.body) - ((own | bound(function.body)) - declared)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope without those of the functions and classes in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, _Inner):
            yield from own_nodes(child)


def stays_inside(statements: Sequence[ast.stmt], name: str, *, set_before: bool) -> bool:
    """Return True if a name is set before it is read, on every way through the statements."""
    try:
        _assigned(statements, name, before=set_before)
    except _ReadFirstError:
        return False
    return True


def _bound(node: ast.AST, without: ast.AST | None = None) -> Iterator[str]:
    if node is without:
        return
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case (
            ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name)
        ):
            yield name
            return
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (item.asname or item.name.partition(".")[0] for item in names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.Lambda():
            return
        case _ if isinstance(node, _COMPREHENSIONS):
            yield from (
                inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)
            )
            return
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _bound(child, without)


@final
class _ReadFirstError(Exception):
    """A name may be read before it is set."""


def _assigned(statements: Sequence[ast.stmt], name: str, *, before: bool) -> bool:
    """Return whether the name is set for sure after the statements."""
    known = before
    for node in statements:
        if not known and name in mentioned([node]):
            known = _sets(node, name)
    return known


def _sets(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.Assign(value=value, targets=targets):
            return _binding(value, targets, name)
        case ast.AnnAssign(value=ast.expr() as value, target=target):
            return _binding(value, [target], name)
        case ast.With(items=items, body=body):
            _refuse([item.context_expr for item in items], name)
            targets = [item.optional_vars for item in items if item.optional_vars is not None]
            return _assigned(body, name, before=name in bound(targets))
        case ast.If(test=test, body=body, orelse=orelse):
            _refuse([test], name)
            both = [_assigned(part, name, before=False) for part in (body, orelse)]
            return all(both)
        case ast.For(target=target, iter=items, body=body, orelse=orelse):
            _refuse([items], name)
            _assigned(body, name, before=name in bound([target]))
            return _assigned(orelse, name, before=False)
        case ast.Import() | ast.ImportFrom():
            return True
        case _:
            raise _ReadFirstError


def _binding(value: ast.expr, targets: Sequence[ast.expr], name: str) -> bool:
    _refuse([value], name)
    if name not in bound(targets):
        raise _ReadFirstError  # it is read in `name[0] = ...`
    return True


def _refuse(nodes: Iterable[ast.AST], name: str) -> None:
    if name in mentioned(nodes):
        raise _ReadFirstError
