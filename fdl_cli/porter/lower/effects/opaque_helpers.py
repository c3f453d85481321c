"""Helpers that cannot be described, and are done as one step: which ones may be, without a difference."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from fdl_cli.porter.ir.symbols import MethodIR
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.knowledge.python_names import MUTATORS
from fdl_cli.porter.lower.names import FunctionNode

# Permitted effects of a method that runs as it is written, with real values, in every call.
_HARMLESS = frozenset({"FDL301", "FDL303", "FDL304", "FDL306", "FDL308", "FDL309", "FDL311",
                       "FDL312", "FDL313", "FDL318"})  # fmt: skip
_REGISTERING = frozenset({"register_buffer", "register_parameter", "add_module", "register_module",
                          "setattr", "delattr"})  # fmt: skip
_MODES = torch.MODULE_MUTATORS - _REGISTERING


def is_whole_step(
    method: MethodIR,
    node: FunctionNode,
    others: list[FunctionNode],
    reached: list[FunctionNode],
) -> bool:
    """Return True if a helper that has been refused can be one step of the methods that call it.

    `others` are the other methods of the class, `reached` those of them that its forward reaches.
    """
    if method.name == "forward" or not method.refusals or "property" in method.decorators:
        return False
    if any(reason.code not in _HARMLESS for reason in method.refusals):
        return False
    if any(isinstance(each, ast.Yield | ast.YieldFrom | ast.Await) for each in ast.walk(node)):
        return False
    if may_return_none(node) or fills_argument(node) or _switches(node):
        return False
    filled = set(_filled_parts(node))
    if any(_looks_into(each, part) for part in filled for each in reached):
        return False
    changed = set(_changed_names(node))
    return "" not in changed and not any(changed & _mentioned(each) for each in others)


def may_return_none(node: FunctionNode) -> bool:
    """Return True if the result is sometimes a value and sometimes nothing."""
    returns = [each.value for each in _own_nodes(node) if isinstance(each, ast.Return)]
    if not any(value is not None for value in returns):
        return False
    nothing = any(
        value is None
        or any(isinstance(x, ast.Constant) and x.value is None for x in _outcomes(value))
        for value in returns
    )
    return nothing or not _ends(node.body)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            yield child
            yield from _own_nodes(child)


def _outcomes(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from _outcomes(body)
            yield from _outcomes(orelse)
        case ast.BoolOp(values=values):
            for each in values:
                yield from _outcomes(each)
        case _:
            yield value


def _ends(body: list[ast.stmt]) -> bool:
    """Return True if a block always returns or raises."""
    match body[-1]:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=then, orelse=orelse):
            return bool(orelse) and _ends(then) and _ends(orelse)
        case ast.With(body=inner):
            return _ends(inner)
        case ast.Try(body=inner, handlers=handlers, orelse=orelse, finalbody=final):
            tried = _ends(orelse or inner) and all(_ends(each.body) for each in handlers)
            return tried or (bool(final) and _ends(final))
        case _:
            return False


@lru_cache(maxsize=4096)
def fills_argument(node: FunctionNode, skipped: int = 1) -> bool:
    """Return True if a container that a method is given may be changed; the object itself is `skipped`."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    given = {argument.arg for argument in arguments[skipped:]}
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if name in given and method in MUTATORS:
                    return True
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                if name in given:
                    return True
            case ast.Delete(targets=targets):
                if any(isinstance(target, ast.Subscript) for target in targets):
                    return True
            case _:
                pass
    return False


def _switches(node: FunctionNode) -> bool:
    """Return True if a method changes a mode that the rest of the flow has read already."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr in {*_MODES, "set_grad_enabled"})
        or (isinstance(each, ast.Attribute) and each.attr == "training" and _is_store(each))
        for each in ast.walk(node)
    )


def _is_store(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _changed_names(node: FunctionNode) -> Iterator[str]:
    """Yield the attributes that are registered, deleted or set elsewhere; nothing for an unknown one."""
    own = node.args.args[0].arg if node.args.args else ""
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=value, attr=name) if _is_store(each):
                direct = isinstance(value, ast.Name) and value.id == own
                if isinstance(each.ctx, ast.Del) or not direct:
                    yield name
            case ast.Call(func=ast.Attribute(attr=word) | ast.Name(id=word), args=args):
                if word in _REGISTERING and not _fills_part(each, own):
                    names = [x.value for x in args[:2] if isinstance(x, ast.Constant)]
                    yield next((name for name in names if isinstance(name, str)), "")
            case ast.Call(func=ast.Name(id="exec" | "eval")):
                yield ""
            case _:
                pass


def _fills_part(call: ast.Call, own: str) -> bool:
    """Return True if an attribute of a part of the object is set by a name that is computed."""
    match call:
        case ast.Call(func=ast.Name(id="setattr"), args=[ast.Attribute() as part, name, _]):
            return not isinstance(name, ast.Constant) and _root(part) == own
        case _:
            return False


def _filled_parts(node: FunctionNode) -> Iterator[str]:
    """Yield the parts of the object whose attributes are set by names that are computed."""
    own = node.args.args[0].arg if node.args.args else ""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _fills_part(each, own):
            yield ast.unparse(each.args[0])


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _looks_into(node: FunctionNode, part: str) -> bool:
    """Return True if a method does more with a part of the object than to call it."""
    called = set()
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(value=value, attr="forward")):
                called.add(value)
            case ast.Call(func=value):
                called.add(value)
            case _:
                pass
    return any(
        isinstance(each, ast.Attribute) and each not in called and ast.unparse(each) == part
        for each in ast.walk(node)
    )


def _mentioned(node: FunctionNode) -> set[str]:
    return {
        each.attr if isinstance(each, ast.Attribute) else str(each.value)
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute | ast.Constant)
    }
