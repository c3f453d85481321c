"""Attributes that a flow sets, or fills if they are containers: read from its bytecode."""

from __future__ import annotations

import inspect
from functools import lru_cache
from inspect import getattr_static
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from flodl.bytecode.decode import instructions
from flodl.bytecode.instruction import LOADS, Instruction, Kind
from flodl.bytecode.operands import Sources, operands
from flodl.tracing.effects.purity import methods_by_name
from flodl.tracing.reads.global_reads import is_foreign

if TYPE_CHECKING:
    from collections.abc import Iterator

MUTATORS = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popitem",
    "appendleft", "popleft", "add", "discard", "sort", "reverse",
})  # fmt: skip


@lru_cache(maxsize=4096)
def live_names(function: Any, owner: type) -> frozenset[str]:
    """Return the attributes which a flow, or a method that it reaches, sets or fills.

    Args:
        function: the method that describes.
        owner: the class of the object; its methods are followed by name.
    """
    found: set[str] = set()
    seen: set[CodeType] = set()
    queue = [inspect.unwrap(function)]
    while queue:
        current = queue.pop()
        code = current.__code__ if isinstance(current, FunctionType) else None
        if code is None or code in seen:
            continue
        seen.add(code)
        for inner in _nested(code):
            found |= _stored(inner)
            queue += [each for name in inner.co_names for each in methods_by_name(name, owner)]
    return frozenset(found)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested(const)


def _stored(code: CodeType) -> set[str]:
    """Return the names of attributes that a piece of code sets, or fills if they are containers."""
    steps, taken = instructions(code), operands(code)
    found: set[str] = set()
    for step, sources in zip(steps, taken, strict=True):
        if step.kind is Kind.STORE_ATTR:
            found.add(step.name)
        elif step.kind in (Kind.STORE_SUBSCRIPT, Kind.DELETE_SUBSCRIPT):
            found |= _attributes(sources[-2], steps, taken)
        elif step.kind is Kind.LOAD_ATTR and step.name in MUTATORS:
            found |= _attributes(sources[0], steps, taken)
    return found


def _attributes(
    value: Sources, steps: tuple[Instruction, ...], taken: tuple[tuple[Sources, ...], ...]
) -> set[str]:
    """Return the attributes of variables that a value may be, or that may hold it as an item."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = list(value)
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        if steps[each].kind is Kind.SUBSCRIPT:
            waiting += taken[each][0]
        elif steps[each].kind is Kind.LOAD_ATTR and any(
            steps[owner].kind in LOADS for owner in taken[each][0]
        ):
            found.add(steps[each].name)
    return found


@lru_cache(maxsize=1024)
def _set_by_class(kind: type) -> frozenset[str]:
    forward = getattr_static(kind, "forward", None)
    definitions = getattr_static(kind, "_flodl_definitions", {})
    functions = [forward, *(each.function for each in definitions.values())]
    found = (live_names(each, kind) for each in functions if isinstance(each, FunctionType))
    return frozenset().union(*found)


def attributes_set_by(module: nn.Module) -> frozenset[str]:
    """Return the attributes that the forwards of the modules inside a module set."""
    kinds: set[type] = {type(each) for each in module.modules()} - {type(module)}
    return frozenset().union(*(_set_by_class(k) for k in kinds if not is_foreign(k.__module__)))
