"""Which attributes a flow sets, or fills if they are containers: read from its bytecode."""

from __future__ import annotations

import dis
import inspect
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, final

from flodl.tracing.purity import methods_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_MUTATORS = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popitem",
    "appendleft", "popleft", "add", "discard", "sort", "reverse",
})  # fmt: skip
_VARIABLES = frozenset({"LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_ENDS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE",
                   "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})  # fmt: skip
_MAKERS = (
    "BINARY_",
    "UNARY_",
    "BUILD_",
    "CALL",
    "COMPARE_",
    "CONTAINS_",
    "IS_",
    "FORMAT_",
    "LIST_TO_",
)
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
        for step in dis.get_instructions(code):
            arrived = self._at_target.pop(step.offset, None)
            if arrived is not None and not self._stack:
                self._stack = arrived
            if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
                after = list(self._stack)
                _settle(after, dis.stack_effect(step.opcode, step.arg, jump=True))
                self._at_target[int(step.argval)] = after
            self._follow(step)
            if step.opname in _ENDS:
                self._stack = []
        return self._found

    def _follow(self, step: dis.Instruction) -> None:
        stack, name = self._stack, step.opname
        if name in _VARIABLES:
            stack.append(_VARIABLE)
        elif name == "COPY":
            stack.append(self._top(int(step.arg or 1)))
        elif name == "SWAP":
            self._swap(int(step.arg or 1))
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self._read(step)
        elif name in ("BINARY_SUBSCR", "BINARY_SLICE"):
            effect = dis.stack_effect(step.opcode, step.arg)
            # An item of a container stands for the container.
            _settle(stack, effect, makes=self._top(1 - effect) == _VARIABLE)
        else:
            self._store(step)
            effect = dis.stack_effect(step.opcode, step.arg, jump=False)
            _settle(stack, effect, makes=name.startswith(_MAKERS))

    def _store(self, step: dis.Instruction) -> None:
        if step.opname == "STORE_ATTR":
            self._found.add(str(step.argval))
        elif step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            self._found |= {self._top(2)} - {"", _VARIABLE}
        elif step.opname == "STORE_SLICE":
            self._found |= {self._top(3)} - {"", _VARIABLE}

    def _read(self, step: dis.Instruction) -> None:
        owner = self._top(1)
        if owner not in ("", _VARIABLE) and step.argval in _MUTATORS:
            self._found.add(owner)
        _settle(self._stack, dis.stack_effect(step.opcode, step.arg), makes=True)
        if owner == _VARIABLE and step.opname == "LOAD_ATTR" and self._stack:
            self._stack[-1] = str(step.argval)

    def _top(self, depth: int) -> str:
        return self._stack[-depth] if depth <= len(self._stack) else ""

    def _swap(self, depth: int) -> None:
        if depth <= len(self._stack):
            self._stack[-1], self._stack[-depth] = self._stack[-depth], self._stack[-1]


def _settle(stack: list[str], effect: int, *, makes: bool = False) -> None:
    """Let an instruction take items from the stack or put unknown ones there.

    Args:
        stack: the stack.
        effect: by how many items it grows.
        makes: whether the item that is then on top is a new one.
    """
    if effect < 0:
        del stack[effect:]
    stack.extend([""] * effect)
    if makes and stack:
        stack[-1] = ""
