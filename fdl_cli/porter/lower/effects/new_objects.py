"""Objects that a forward makes: every call needs new ones, so a step makes them.

Before: cache = Pair(a=Cache(), b=[Cache()]), self.block(x, cache)
After:  cache = call(Pair, a=call(Cache), b=[call(Cache)]), x.through(self.block, cache)

A flow is traced once; an object made by plain Python would be shared by all calls. Lists, dicts and
tuples are displays of a plan and new in every call. `calls.py` makes every call of a class a step; this file
knows the exceptions: classes of immutable objects, and containers that only the flow itself fills.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from fdl_cli.porter.ir.expressions import Expr, rebuilt
from fdl_cli.porter.knowledge import python_names as py
from fdl_cli.porter.lower.effects.attribute_writes import is_held, read_live, receivers
from fdl_cli.porter.lower.effects.opaque_calls import is_used_up, made_call
from fdl_cli.porter.lower.environment import MAY_FLOW, Environment
from fdl_cli.porter.lower.names import FunctionNode

_SETTLED_BASES = frozenset({"NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "str",
                            "int", "float", "tuple", "frozenset", "Exception", "ValueError",
                            "RuntimeError", "TypeError"})  # fmt: skip
# Where a class has one of these, making an object does more than to hold what it is given.
_MAKERS = frozenset({"__init__", "__new__", "__post_init__"})


def as_new_object(env: Environment, target: ast.expr, node: ast.expr, value: Expr) -> Expr:
    """Return the value of a variable; a container or iterator that others get is made by a step."""
    if env.method is None or isinstance(target, ast.Tuple | ast.List):
        return value
    if isinstance(target, ast.Name) and target.id in receivers(env.method):
        value = read_live(value, env.source.span(node)) if is_held(env, value, 1) else value
    if isinstance(target, ast.Name) and target.id not in _given(env.method):
        return value
    return (
        made_call(env, node, "result", hides=True) if is_used_up(value) else handed_on(env, value)
    )


def handed_on(env: Environment, value: Expr) -> Expr:
    """Return a value that others get: `deque()`, `set() if seen is None else seen`."""
    if value.op in {"conditional", "boolean"}:
        return replace(value, parts=tuple(handed_on(env, part) for part in value.parts))
    if value.op == "set" or (value.op == "comprehension" and value.name == "set"):
        return replace(value, role="function", kind="result")
    if value.op in {"list", "tuple", "dict"}:
        return rebuilt(value, tuple(handed_on(env, part) for part in value.parts))
    return replace(value, role="function", kind="result") if _is_held(env, value) else value


def _is_held(env: Environment, value: Expr) -> bool:
    """Return True if a value is a container or an iterator that the runtime does not make in every call."""
    if value.op != "call" or value.role != "python":
        return False
    callee = value.parts[0]
    if callee.op == "name" and (callee.name in env.kinds or env.names.is_own(callee.name)):
        return False
    return callee.op in {"name", "attribute"} and callee.name in py.HELD_TYPES


def is_settled(node: ast.ClassDef, arguments: tuple[Expr, ...]) -> bool:
    """Return True if an object of a class is only a record of its arguments, and immutable."""
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    bases |= {base.attr for base in node.bases if isinstance(base, ast.Attribute)}
    makes = any(isinstance(each, ast.FunctionDef) and each.name in _MAKERS for each in node.body)
    fresh = any(
        isinstance(each, ast.keyword) and each.arg == "default_factory" for each in ast.walk(node)
    )
    if makes or fresh:
        return False
    # A step sees one around traced values as another object: only a tuple is the same then.
    flows = any(part.kind in MAY_FLOW for part in arguments)
    return bool(bases & _SETTLED_BASES) or (_is_frozen(node) and not flows)


def _is_frozen(node: ast.ClassDef) -> bool:
    return any(
        keyword.arg == "frozen" and isinstance(keyword.value, ast.Constant) and keyword.value.value
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )


@lru_cache(maxsize=64)
def _given(method: FunctionNode) -> frozenset[str]:
    """Return the variables that a method passes to its callees, as they are or in a container."""
    return frozenset(
        name
        for node in ast.walk(method)
        if isinstance(node, ast.Call) and not _only_looks(node)
        for value in (*node.args, *(keyword.value for keyword in node.keywords))
        for name in _names(value)
    )


def _only_looks(node: ast.Call) -> bool:
    """Return True if a call cannot change its arguments: `isinstance(cache, Cache)`."""
    return isinstance(node.func, ast.Name) and node.func.id in py.PURE_BUILTINS


def _names(value: ast.expr) -> Iterator[str]:
    """Yield the variables that a value is, or that it contains unchanged."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            for part in parts:
                yield from _names(part)
        case ast.IfExp(body=first, orelse=second):
            yield from _names(first)
            yield from _names(second)
        case _:
            return
