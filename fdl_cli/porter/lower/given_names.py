"""Variables that hold arguments of a method, and nothing that a step computes.

def forward(self, x, use_cache=None):
    use_cache = use_cache if use_cache is not None else self.config.use_cache
    if use_cache: ...                       # an argument or a setting: a guard answers at the entry
    ready = self.check(x)
    if ready: ...                           # computed: a step has to ask, `if call(bool, ready):`
"""

import ast
from collections.abc import Iterator
from functools import lru_cache

from fdl_cli.porter.lower.names import FunctionNode

_READING = frozenset({"get", "pop"})
_BUILTINS = frozenset({"bool", "int", "float", "len", "isinstance", "getattr", "hasattr"})


def is_given(method: FunctionNode | None, node: ast.expr) -> bool:
    """Return True if a value is made of arguments, constants and settings alone."""
    return method is not None and _is_given(node, given_names(method), _own(method))


@lru_cache(maxsize=64)
def given_names(method: FunctionNode) -> frozenset[str]:
    """Return the variables that are only ever bound to such values."""
    arguments = method.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    bindings = list(_bindings(method))
    found = {each.arg for each in parameters} | {name for name, _ in bindings}
    own = _own(method)
    while True:
        kept = found - {
            name
            for name, value in bindings
            if value is None or not _is_given(value, frozenset(found), own)
        }
        if kept == found:
            return frozenset(found)
        found = kept


def _own(method: FunctionNode) -> str:
    return method.args.args[0].arg if method.args.args else ""


def _bindings(method: FunctionNode) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield every variable that is bound, and its value where that is one expression."""
    simple: dict[int, ast.expr] = {}
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=targets, value=value):
                simple |= {id(each): value for each in targets}
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                simple[id(target)] = value
            case ast.AugAssign(target=target, value=value):
                simple[id(target)] = value
            case ast.NamedExpr(target=target, value=value):
                simple[id(target)] = value
            case _:
                pass
    for node in ast.walk(method):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, simple.get(id(node))


def _is_given(node: ast.expr, names: frozenset[str], own: str) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in names and name != own
        case ast.Attribute(value=ast.Name(id=name)) if name == own and own:
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args) if attr in _READING:
            parts = [value, *args]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _BUILTINS:
            parts = args
        case _:
            parts = _operands(node)
    return bool(parts) and all(_is_given(part, names, own) for part in parts)


def _operands(node: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression that calls nothing; none of others."""
    match node:
        case ast.Attribute(value=value) | ast.UnaryOp(operand=value):
            return [value]
        case ast.Subscript(value=value, slice=index):
            return [value, index]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [test, body, orelse]
        case _:
            return []
