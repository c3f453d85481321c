"""Functions that are defined inside a method, and whether they are recorded where they are called."""

import ast

from fdl_cli.porter.knowledge.python_names import MUTATORS
from fdl_cli.porter.lower.names import FunctionNode


def is_called_only(method: FunctionNode | None, inner: ast.FunctionDef) -> bool:
    """Return True if a function is plain, only ever called, and reads no name that changes after it."""
    if method is None or inner.decorator_list or inner.args.vararg or inner.args.kwarg:
        return False
    own = {id(node) for node in ast.walk(inner)}
    called = {
        id(node.func)
        for node in ast.walk(method)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    for node in ast.walk(method):
        is_name = isinstance(node, ast.Name) and node.id == inner.name
        if is_name and (id(node) not in called or id(node) in own):
            return False
    return not (_changed_after(method, inner, own) & _read_from_outside(inner))


def constant_parameters(method: FunctionNode | None, inner: ast.FunctionDef) -> set[str]:
    """Return the parameters to which every call of a function gives a constant, if only by their default."""
    names = [each.arg for each in (*inner.args.posonlyargs, *inner.args.args)]
    defaults = dict(zip(names[::-1], inner.args.defaults[::-1], strict=False))
    found = set(names)
    for node in ast.walk(method) if method is not None else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id != inner.name:
            continue
        if any(isinstance(each, ast.Starred) for each in node.args):
            return set()
        given = defaults | dict(zip(names, node.args, strict=False))
        given |= {each.arg or "": each.value for each in node.keywords}
        found &= {name for name, value in given.items() if isinstance(value, ast.Constant)}
    stored = {
        node.id for node in ast.walk(inner) if isinstance(node, ast.Name) and not _is_read(node)
    }
    return found - stored


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def is_plain(inner: ast.FunctionDef | ast.Lambda) -> bool:
    """Return True if a function only reads its surroundings: it can be made in every call."""
    if isinstance(inner, ast.FunctionDef) and inner.decorator_list:
        return False
    outside = _read_from_outside(inner)
    if free_nonlocals(inner):
        return False
    for node in ast.walk(inner):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await | ast.Global):
            return False
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            return False
        if _fills(node) in outside:
            return False
    return True


def free_nonlocals(inner: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Return the variables around a function that it, or one inside of it, sets by `nonlocal`."""
    own, declared, inside = argument_names(inner), set(), set()
    body = [inner.body] if isinstance(inner, ast.Lambda) else inner.body
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            inside |= free_nonlocals(node)
            own |= {node.name} if isinstance(node, ast.FunctionDef) else set()
            continue
        if isinstance(node, ast.Nonlocal):
            declared |= set(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return declared | (inside - (own - declared))


def _fills(node: ast.AST) -> str:
    """Return the name of a container that a call changes, if it is one of a variable."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
            return name if method in MUTATORS else ""
        case ast.AugAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _changed_after(method: FunctionNode, inner: ast.FunctionDef, own: set[int]) -> set[str]:
    end = inner.end_lineno or inner.lineno
    loops = [
        node
        for node in ast.walk(method)
        if isinstance(node, ast.For | ast.While)
        and any(id(part) in own for part in ast.walk(node))
    ]
    inside = {id(part) for loop in loops for part in ast.walk(loop)}
    return {
        node.id
        for node in ast.walk(method)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and id(node) not in own
        and (node.lineno > end or id(node) in inside)
    }


def _read_from_outside(inner: ast.FunctionDef | ast.Lambda) -> set[str]:
    local = argument_names(inner)
    local |= {
        node.id
        for node in ast.walk(inner)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return {node.id for node in ast.walk(inner) if isinstance(node, ast.Name)} - local


def argument_names(inner: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Return the names of the parameters of a function."""
    arguments = [*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs]
    arguments += [each for each in (inner.args.vararg, inner.args.kwarg) if each is not None]
    return {argument.arg for argument in arguments}
