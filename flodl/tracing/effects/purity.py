"""Purity of a flow: it may be described before its first call if a run on proxies has no effect.

A description right after construction runs the flow's Python code without values.  That is sound
unless the code looks at identity (`y is None`, which a proxy cannot answer) or does something other
than compute (`print`, a file, a clock).  Such flows wait for their first call.
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from flodl.bytecode.decode import instructions
from flodl.bytecode.instruction import LOADS, STORES, Instruction, Kind
from flodl.tracing.effects.object_mutation import is_written_in_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Owners: TypeAlias = tuple[type, ...]

_EFFECTS = frozenset({Kind.STORE_GLOBAL, Kind.DELETE_GLOBAL, Kind.STORE_ATTR, Kind.DELETE_ATTR,
                      Kind.ENTER_WITH, Kind.IMPORT})  # fmt: skip
_SETS = STORES | {Kind.DELETE_LOCAL, Kind.DELETE_CELL}
_SWITCHES = frozenset(
    {"_set_grad_enabled", "set_grad_enabled", "manual_seed", "set_default_dtype"}
)
_SAFE_BUILTINS = frozenset({
    "len", "range", "zip", "enumerate", "list", "tuple", "dict", "set", "int", "float", "bool", "str",
    "min", "max", "sum", "abs", "reversed", "sorted", "map", "any", "all", "slice", "super", "isinstance",
    "round", "getattr", "type", "__build_class__", "AssertionError", "ValueError", "TypeError",
    "RuntimeError", "NotImplementedError", "Exception", "filter", "iter", "next",
})  # fmt: skip
_SAFE_PACKAGES = ("torch", "flodl", "math", "operator", "functools", "itertools", "einops")


def is_describable(function: Callable[..., Any], owners: Sequence[type]) -> bool:
    """Return True if a flow may run on proxies without values.

    Args:
        function: the flow.
        owners: the classes of its module and of those inside, whose methods it may call.
    """
    own = tuple(each for each in owners if not _is_of_a_package(each))
    return isinstance(function, FunctionType) and _function(function, own, set())


def _is_of_a_package(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", "flodl")


def _function(function: FunctionType, owners: Owners, seen: set[CodeType]) -> bool:
    code = function.__code__
    # Defaults that the caller of a flow leaves out are known; a flow may pass a proxy to a helper.
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if not seen else ()
    # A parameter that is assigned again may be a proxy when it is read.
    known = frozenset(parameters) - _assigned(code)
    return _code(code, function, owners, seen, known)


def _assigned(code: CodeType) -> set[str]:
    """Return the variables of a function that it, or a function inside, sets or deletes."""
    found = {step.name for step in instructions(code) if step.kind in _SETS}
    for inner in _inside(code):
        found |= _assigned(inner) & set(inner.co_freevars)
    return found


def _inside(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def _code(
    code: CodeType,
    function: FunctionType,
    owners: Owners,
    seen: set[CodeType],
    known: frozenset[str],
) -> bool:
    if code in seen:
        return True
    seen.add(code)
    steps = instructions(code)
    for position, step in enumerate(steps):
        if step.kind in _EFFECTS or _SWITCHES & {step.name, str(step.value)}:
            return False
        if not _is_known_identity(steps, position, known):
            return False
        if step.kind is Kind.LOAD_GLOBAL and not _global(step.name, function, owners, seen):
            return False
        if step.kind is Kind.LOAD_ATTR and not _member(step.name, owners, seen):
            return False
    return all(
        _code(inner, function, owners, seen, known.intersection(inner.co_freevars))
        for inner in _inside(code)
    )


def _is_known_identity(
    steps: tuple[Instruction, ...], position: int, known: frozenset[str]
) -> bool:
    """Return False if an instruction compares identities of anything but known parameters."""
    kind = steps[position].kind
    if kind not in (Kind.IS, Kind.IS_NONE):
        return True
    operands = steps[max(position - steps[position].pops, 0) : position]
    return all(
        (each.kind in LOADS and each.name in known) or each.kind is Kind.LOAD_CONST
        for each in operands
    )


def _global(name: str, function: FunctionType, owners: Owners, seen: set[CodeType]) -> bool:
    if name not in function.__globals__:
        return name in _SAFE_BUILTINS or not hasattr_builtin(name)
    value = function.__globals__[name]
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _SAFE_PACKAGES
    if isinstance(value, FunctionType):
        package = (value.__module__ or "").partition(".")[0]
        return package in _SAFE_PACKAGES or _function(value, owners, seen)
    if isinstance(value, type) and is_written_in_python(value):
        # An object of it that a step changes would be the same one in every call: only a run shows that.
        return dataclasses.is_dataclass(value)
    return isinstance(value, (int, float, str, bool, tuple, type, type(None))) or (
        (getattr(value, "__module__", "") or "").partition(".")[0] in _SAFE_PACKAGES
    )


def _member(name: str, owners: Owners, seen: set[CodeType]) -> bool:
    """Follow `self.helper(...)` and `self.part.helper(...)`: methods by that name are looked into as well."""
    return all(_own_member(name, each, owners, seen) for each in owners)


def _own_member(name: str, owner: type, owners: Owners, seen: set[CodeType]) -> bool:
    for kind in owner.__mro__:
        value = vars(kind).get(name)
        if isinstance(value, FunctionType) and "__flodl_definition__" not in vars(value):
            package = (value.__module__ or "").partition(".")[0]
            own = inspect.unwrap(value)
            return package in _SAFE_PACKAGES or (
                isinstance(own, FunctionType) and _function(own, owners, seen)
            )
    return True


def hasattr_builtin(name: str) -> bool:
    """Return True if a name is a builtin."""
    return name in vars(builtins)


def methods_by_name(name: str, owner: type) -> Iterator[FunctionType]:
    """Yield the methods and properties of the user's classes that have a name."""
    for kind in owner.__mro__:
        if kind.__module__.partition(".")[0] in ("torch", "flodl", "builtins"):
            continue
        value = vars(kind).get(name)
        value = value.fget if isinstance(value, property) else value
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, FunctionType):
            unwrapped = inspect.unwrap(value)
            if isinstance(unwrapped, FunctionType):
                yield unwrapped
