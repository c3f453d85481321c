"""Reads `self.register_buffer("mask", value, False)` in a method as the assignment that it is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import final


def settle_buffers(tree: ast.Module) -> None:
    """Turn registrations of buffers that the constructor registers in the same way into assignments.

    Registering a name again sets it, if it is persistent as before.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        made = {}
        for method in methods:
            if method.name == "__init__":
                made = {name: kept for _, name, _, kept in _registrations(method.body, method)}
        for method in methods:
            if method.name != "__init__" and made:
                _Settler(method, made).visit(method)


@final
class SettledBuffer(ast.Assign):
    """An assignment that is written as a registration: in a graph it is written as what it is."""


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
                return ast.copy_location(SettledBuffer(targets=[target], value=value), node)
        return node


def _registrations(
    body: list[ast.stmt], method: ast.FunctionDef
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
