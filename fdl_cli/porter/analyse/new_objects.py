"""Objects that a forward makes and others change: every call has to make them anew, so a step does it.

Before: cache = DynamicCache(), self.block(x, cache)
After:  cache = call(DynamicCache), x.through(self.block, cache)

A flow is run once; what plain Python makes in it would be one object for all calls.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from fdl_cli.porter.analyse.environment import FLOWING, Environment
from fdl_cli.porter.analyse.names import FunctionNode
from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.knowledge import python_names as py

# Containers of the standard library are followed by the runtime; of the others no object changes.
_FOLLOWED = ("torch.", "numpy.", "typing.", "collections.", "math.", "itertools.", "functools.",
             "operator.", "fractions.", "decimal.", "enum.", "pathlib.", "abc.")  # fmt: skip
_SETTLED_BASES = frozenset({"NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "str",
                            "int", "float", "tuple", "frozenset", "Exception"})  # fmt: skip


def as_new_object(env: Environment, target: ast.expr, value: Expr) -> Expr:
    """Return the value of a variable; the making of an object is a step if others may change it."""
    if env.method is None or not isinstance(target, ast.Name):
        return value
    if target.id in _filled(env.method):
        return _made_by_a_step(value)
    return handed_on(env, value) if target.id in _given(env.method) else value


def handed_on(env: Environment, value: Expr) -> Expr:
    """Return a value that others get: `Cache()`, `Cache() if cache is None else cache`."""
    if value.op in {"conditional", "boolean"}:
        return replace(value, parts=tuple(handed_on(env, part) for part in value.parts))
    return replace(value, role="function", kind="flow") if _makes_an_object(env, value) else value


def _made_by_a_step(value: Expr) -> Expr:
    if value.op != "call" or value.role not in {"python", "function"}:
        return value
    if value.kind not in {"maybe", "flow"} and not _is_class(value.parts[0].name):
        return value
    return replace(value, role="function", kind="flow")


def _is_class(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()


def _makes_an_object(env: Environment, value: Expr) -> bool:
    """Say whether a value is a new object of a class, one that can be changed."""
    if value.op != "call" or value.role != "python":
        return False
    if any(part.kind in FLOWING for part in value.parts[1:]):
        return False  # The runtime makes an object that holds values of the flow in every call.
    callee = value.parts[0]
    if callee.op == "name" and callee.name in env.names.classes:
        return not _is_settled(env.names.classes[callee.name])
    dotted = callee.dotted
    if not dotted or dotted.startswith(_FOLLOWED) or dotted.endswith(("Error", "Exception")):
        return False
    # `transformers.DynamicCache`, `transformers.DynamicCache.from_legacy_cache`
    return any(_is_class(part) for part in dotted.split(".")[-2:])


def _is_settled(node: ast.ClassDef) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    bases |= {base.attr for base in node.bases if isinstance(base, ast.Attribute)}
    frozen = any(
        keyword.arg == "frozen" and isinstance(keyword.value, ast.Constant) and keyword.value.value
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )
    return frozen or bool(bases & _SETTLED_BASES)


@lru_cache(maxsize=64)
def _filled(method: FunctionNode) -> frozenset[str]:
    """Return the variables of which a method sets attributes."""
    return frozenset(
        node.value.id
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
    )


@lru_cache(maxsize=64)
def _given(method: FunctionNode) -> frozenset[str]:
    """Return the variables that a method gives to what it calls, as they are or in a container."""
    return frozenset(
        name
        for node in ast.walk(method)
        if isinstance(node, ast.Call) and not _only_looks(node)
        for value in (*node.args, *(keyword.value for keyword in node.keywords))
        for name in _names(value)
    )


def _only_looks(node: ast.Call) -> bool:
    """Say whether a call cannot change what it is given: `isinstance(cache, Cache)`."""
    return isinstance(node.func, ast.Name) and node.func.id in py.PURE_BUILTINS


def _names(value: ast.expr) -> Iterator[str]:
    """Yield the variables that a value is, or that stand in it as they are."""
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
