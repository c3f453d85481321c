"""Bytecode analysis of steps that may change a list or dict that they get.

Most steps change none, and pay for no guard.  A step that did not change its container in the call that
was traced may do so in a later one: `if score > best: found.append(x)`.
"""

from __future__ import annotations

from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

from flodl.bytecode.decode import instructions
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import Kind
from flodl.tracing.effects.mutated_attributes import MUTATORS
from flodl.tracing.reads.global_reads import is_foreign

_BUILTINS = frozenset({"heapq", "_heapq", "bisect", "_bisect", "random"})
_DEPTH = 3


def may_change(compute: Any) -> bool:
    """Return True if the code of a step, or a function that it names, may change a container."""
    while isinstance(compute, partial):
        compute = compute.func
    if isinstance(compute, nn.Module):
        compute = type(compute).forward
    if isinstance(compute, MethodType):
        if type(compute.__self__).__module__ in _BUILTINS:
            return True
        compute = compute.__func__
    if not isinstance(compute, FunctionType):
        module = getattr(compute, "__module__", None)
        return module in _BUILTINS
    return _function(compute, _DEPTH)


def _function(function: FunctionType, depth: int) -> bool:
    if function.__module__ in _BUILTINS:
        return True
    if is_foreign(function.__module__):
        return False
    if _code(function.__code__):
        return True
    if depth == 0:
        return False
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    return any(
        _function(each, depth - 1)
        for each in named
        if isinstance(each, FunctionType) and each is not function
    )


@kept_by_identity
def _code(code: CodeType) -> bool:
    """Return True if a piece of code stores an item, or calls a method that changes containers."""
    for step in instructions(code):
        if step.kind in (Kind.STORE_SUBSCRIPT, Kind.DELETE_SUBSCRIPT):
            return True
        if step.kind is Kind.LOAD_ATTR and step.name in MUTATORS:
            return True
    return any(_code(inner) for inner in code.co_consts if isinstance(inner, CodeType))
