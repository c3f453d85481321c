"""The instructions that an instruction takes its operands from.

    >>> code = (lambda f, x: x if (y := f(x)) is None else y).__code__
    >>> steps = instructions(code)
    >>> [position] = [i for i, step in enumerate(steps) if step.kind is Kind.IS_NONE]
    >>> [steps[i].kind.name for (operand,) in [operands(code)[position]] for i in operand]
    ['CALL']

Neighbours of an instruction differ between versions of Python, and a value may come from two branches.
Where it comes from is followed on the stack, along every path, until nothing changes any more.
"""

from __future__ import annotations

from types import CodeType
from typing import Final, NamedTuple, TypeAlias, final

from flodl.bytecode.decode import instructions
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import ENDS, Instruction, Kind

Sources: TypeAlias = frozenset[int]
"""Positions of the instructions that may have made a value; none for a value that Python brings, such as
a caught exception."""

_Stack: TypeAlias = tuple[Sources, ...]
_UNKNOWN: Final[Sources] = frozenset()


@kept_by_identity
def operands(code: CodeType) -> tuple[tuple[Sources, ...], ...]:
    """Return the operands of each instruction of a code object, that on top of the stack last.

    Copies of a value are the value. Instructions that never run have unknown operands.

    Raises:
        BytecodeError: this version of Python or one of the instructions is unknown.
    """
    steps = instructions(code)
    stacks = _stacks(code, steps)
    return tuple(_taken(step, stacks.get(position, ())) for position, step in enumerate(steps))


def callee(step: Instruction, taken: tuple[Sources, ...]) -> Sources:
    """Return the instructions that may have loaded the callable of a call.

    Args:
        step: the call.
        taken: its operands.
    """
    slots = taken[:2] if step.kind is Kind.CALL_UNPACKED else taken[: step.pops - step.count]
    return frozenset().union(*slots)  # one of them is its `self`, or empty


@final
class _Handler(NamedTuple):
    """A range of offsets, and where an exception in it goes with how much of the stack."""

    start: int
    end: int
    target: int
    depth: int
    pushes: int


def _stacks(code: CodeType, steps: tuple[Instruction, ...]) -> dict[int, _Stack]:
    """Return the stack before each instruction that can be reached."""
    at_offset: dict[int, int] = {}
    for position, step in enumerate(steps):
        at_offset.setdefault(step.offset, position)
    handlers = _handlers(code, at_offset)
    stacks: dict[int, _Stack] = {}
    waiting: list[tuple[int, _Stack]] = [(0, ())]
    while waiting:
        position, stack = waiting.pop()
        if position in stacks:
            stack = _merged(stacks[position], stack)
            if stack == stacks[position]:
                continue
        stacks[position] = stack
        step = steps[position]
        for each in handlers:
            if each.start <= step.offset < each.end:
                caught = *stack[: each.depth], *[_UNKNOWN] * each.pushes
                waiting.append((each.target, caught))
        if step.target is not None:
            waiting.append((at_offset[step.target], _jumped(step, stack)))
        if step.kind not in ENDS:
            waiting.append((position + 1, _after(step, position, stack)))
    return stacks


def _handlers(code: CodeType, at_offset: dict[int, int]) -> list[_Handler]:
    """Return the exception table: github.com/python/cpython, Objects/exception_handling_notes.txt."""
    found = []
    numbers = iter(_numbers(code.co_exceptiontable))
    for start, length, target, packed in zip(numbers, numbers, numbers, numbers, strict=True):
        first = min(position for offset, position in at_offset.items() if offset >= 2 * target)
        # The place of the exception is pushed too if it is to be raised again.
        pushes = 1 + (packed & 1)
        found.append(_Handler(2 * start, 2 * (start + length), first, packed >> 1, pushes))
    return found


def _numbers(table: bytes) -> list[int]:
    """Return the numbers of an exception table, which have six bits in each byte."""
    found: list[int] = []
    is_continued = False
    for byte in table:
        if is_continued:
            found[-1] = found[-1] << 6 | byte & 63
        else:
            found.append(byte & 63)
        is_continued = bool(byte & 64)
    return found


def _merged(one: _Stack, other: _Stack) -> _Stack:
    return tuple(left | right for left, right in zip(one, other, strict=True))


def _after(step: Instruction, position: int, stack: _Stack) -> _Stack:
    if step.kind is Kind.COPY:
        return *stack, stack[-step.count]
    if step.kind is Kind.SWAP:
        items = list(stack)
        items[-1], items[-step.count] = items[-step.count], items[-1]
        return tuple(items)
    return *stack[: len(stack) - step.pops], *[frozenset({position})] * step.pushes


def _jumped(step: Instruction, stack: _Stack) -> _Stack:
    """Return the stack at the target of a jump; values that the jump puts there are unknown."""
    left = len(stack) - max(step.pops, -step.jump_effect)
    return *stack[:left], *[_UNKNOWN] * (len(stack) + step.jump_effect - left)


def _taken(step: Instruction, stack: _Stack) -> tuple[Sources, ...]:
    depths = (step.count,) if step.kind is Kind.COPY else range(step.pops, 0, -1)
    return tuple(stack[-depth] if depth <= len(stack) else _UNKNOWN for depth in depths)
