"""Which attributes a flow sets, or fills if they are containers: read from its bytecode."""

from __future__ import annotations

import inspect
from functools import lru_cache
from inspect import getattr_static
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, final

from torch import nn

from flodl.bytecode.decode import instructions
from flodl.bytecode.instruction import ENDS, LOADS, Instruction, Kind
from flodl.tracing.global_reads import is_foreign
from flodl.tracing.purity import methods_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_MUTATORS = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popitem",
    "appendleft", "popleft", "add", "discard", "sort", "reverse",
})  # fmt: skip
_VARIABLE = "$"


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
            found |= _Reading().stored(inner)
            queue += [each for name in inner.co_names for each in methods_by_name(name, owner)]
    return frozenset(found)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested(const)


@final
class _Reading:
    """One pass over a piece of code, which follows where attributes lie on the stack.

    An item of the stack is `$` for a variable, the name of an attribute of one (or of an item in that
    attribute), and empty for anything else.
    """

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._at_target: dict[int, list[str]] = {}
        self._found: set[str] = set()

    def stored(self, code: CodeType) -> set[str]:
        """Return the names of attributes that a piece of code sets, or fills if they are containers."""
        for step in instructions(code):
            arrived = self._at_target.pop(step.offset, None)
            if arrived is not None and not self._stack:
                self._stack = arrived
            if step.target is not None:
                after = list(self._stack)
                _settle(after, max(-step.jump_effect, 0), max(step.jump_effect, 0))
                self._at_target[step.target] = after
            self._follow(step)
            if step.kind in ENDS:
                self._stack = []
        return self._found

    def _follow(self, step: Instruction) -> None:
        stack, kind = self._stack, step.kind
        if kind in LOADS:
            stack.append(_VARIABLE)
        elif kind is Kind.COPY:
            stack.append(self._top(step.count))
        elif kind is Kind.SWAP:
            self._swap(step.count)
        elif kind is Kind.LOAD_ATTR:
            self._read(step)
        elif kind is Kind.SUBSCRIPT:
            container = self._top(2)
            _settle(stack, step.pops, step.pushes)
            if container != _VARIABLE and stack:  # an item of a container stands for the container
                stack[-1] = container
        else:
            self._store(step)
            _settle(stack, step.pops, step.pushes)

    def _store(self, step: Instruction) -> None:
        if step.kind is Kind.STORE_ATTR:
            self._found.add(step.name)
        elif step.kind in (Kind.STORE_SUBSCRIPT, Kind.DELETE_SUBSCRIPT):
            self._found |= {self._top(2)} - {"", _VARIABLE}

    def _read(self, step: Instruction) -> None:
        owner = self._top(1)
        if owner not in ("", _VARIABLE) and step.name in _MUTATORS:
            self._found.add(owner)
        _settle(self._stack, step.pops, step.pushes)
        if owner == _VARIABLE and self._stack:
            self._stack[-1] = step.name

    def _top(self, depth: int) -> str:
        return self._stack[-depth] if depth <= len(self._stack) else ""

    def _swap(self, depth: int) -> None:
        if depth <= len(self._stack):
            self._stack[-1], self._stack[-depth] = self._stack[-depth], self._stack[-1]


def _settle(stack: list[str], pops: int, pushes: int) -> None:
    """Let an instruction take items from the stack and put unknown ones there."""
    if pops:
        del stack[-pops:]
    stack.extend([""] * pushes)


@lru_cache(maxsize=1024)
def _set_by_class(kind: type) -> frozenset[str]:
    forward = getattr_static(kind, "forward", None)
    definitions = getattr_static(kind, "_definitions", {})
    functions = [forward, *(each.function for each in definitions.values())]
    found = (live_names(each, kind) for each in functions if isinstance(each, FunctionType))
    return frozenset().union(*found)


def attributes_set_by(module: nn.Module) -> frozenset[str]:
    """Return the attributes that the forwards of the modules inside a module set."""
    kinds: set[type] = {type(each) for each in module.modules()} - {type(module)}
    return frozenset().union(*(_set_by_class(k) for k in kinds if not is_foreign(k.__module__)))
