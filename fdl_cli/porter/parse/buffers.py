"""`self.register_buffer("mask", value, False)` in a method, read as the assignment that it is there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import final

_MARK = "is_settled_buffer"


def settle_buffers(tree: ast.Module) -> None:
    """Turn registrations of buffers that the constructor registers in the same way into assignments.

    Registering a name again sets it, if it is persistent as before. A buffer registered under a
    condition may not be there: an assignment would make it a plain attribute.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        made = {}
        for method in methods:
            if method.name == "__init__":
                always = [item for item in method.body if isinstance(item, ast.Expr)]
                made = {name: kept for _, name, _, kept in _registrations(always, method)}
        for method in methods:
            if method.name != "__init__" and made:
                _Settler(method, made).visit(method)


def is_settled(node: ast.Assign) -> bool:
    """Return True if `settle_buffers` made an assignment from a registration."""
    return _MARK in vars(node)


@final
class _Settler(ast.NodeTransformer):
    def __init__(self, method: ast.FunctionDef, made: Mapping[str, bool]) -> None:
        self._method = method
        self._made = made

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """Return the assignment in the place of a registration."""
        for call, name, value, kept in _registrations([node], self._method):
            if call is node.value and self._made.get(name) is kept:
                target = ast.Attribute(value=_owner(call), attr=name, ctx=ast.Store())
                ast.copy_location(target, call.func)
                settled = ast.Assign(targets=[target], value=value)
                # No subclass: visitors and `ast.unparse` go by the name of the class.
                vars(settled)[_MARK] = True
                return ast.copy_location(settled, node)
        return node


def _registrations(
    body: Iterable[ast.stmt], method: ast.FunctionDef
) -> Iterator[tuple[ast.Call, str, ast.expr, bool]]:
    """Yield the registrations of buffers among statements: call, name, value, whether it is persistent."""
    own = method.args.args[0].arg if method.args.args else ""
    for statement in body:
        for node in ast.walk(statement):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=owner), attr="register_buffer"),
                    args=[ast.Constant(value=str(name)), value, *flags],
                    keywords=keywords,
                ) if owner == own:
                    kept = _persistent(flags, keywords)
                    if kept is not None and not isinstance(value, ast.Starred):
                        yield node, name, value, kept
                case _:
                    pass


def _persistent(flags: list[ast.expr], keywords: list[ast.keyword]) -> bool | None:
    given = [*flags, *(item.value for item in keywords if item.arg == "persistent")]
    if len(given) > 1 or len(given) != len(flags) + len(keywords):
        return None
    match given:
        case []:
            return True
        case [ast.Constant(value=bool(kept))]:
            return kept
        case _:
            return None


def _owner(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value
