"""Where Python asks whether the result of a step is there: `if mask is not None`, which no handle can hear.

A step may return `None` in one call and a tensor in the next.  `None` is what the flow then gets, and what
it does with it is a way of its own through the graph, as with every other answer that Python gets.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, final

from flodl.tracing.callsite import SKIPPED, running_offset

if TYPE_CHECKING:
    from types import CodeType, FrameType


@final
class _Uses(NamedTuple):
    """What becomes of results: which instructions and variables are asked, and which nobody reads."""

    asked: frozenset[int]
    asked_names: frozenset[str]
    dropped: frozenset[int]
    read_names: frozenset[str]
    is_crossed: bool


def is_asked(frame: FrameType | None, variable: str) -> bool:
    """Say whether the running instruction's result, or a variable it is put into, is asked for `None`."""
    if frame is None:
        return False
    uses = _uses(frame.f_code)
    if variable or running_offset(frame) in uses.asked:
        return not variable or variable in uses.asked_names
    return uses.is_crossed


def is_dropped(frame: FrameType | None, variable: str) -> bool:
    """Say whether nobody gets the running instruction's result, or reads the variable it is put into."""
    if frame is None:
        return False
    uses = _uses(frame.f_code)
    if variable:
        return variable not in uses.read_names
    return running_offset(frame) in uses.dropped


@lru_cache(maxsize=1024)
def _uses(code: CodeType) -> _Uses:
    steps = [step for step in dis.get_instructions(code) if step.opname not in SKIPPED]
    asked, names, dropped, read = set(), set(), set(), set(code.co_cellvars)
    # `a, b = f(x), g(x)` stores its results when the last of them is there.
    is_crossed = in_parts = False
    for position, step in enumerate(steps):
        before = steps[position - 1] if position else step
        if step.opname == "POP_TOP":
            dropped.add(before.offset)
        elif step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            read |= _names(step)
        elif _asks(step, before):
            thing = position - 2 if step.opname == "IS_OP" else position - 1
            if steps[thing].opname.startswith("STORE_FAST"):  # (mask := f(x)) is None
                thing -= 2
            names |= _names(steps[thing])
            asked.add(steps[thing].offset)
        if step.opname == before.opname == "STORE_FAST":
            is_crossed |= not in_parts
        else:
            in_parts = before.opname.startswith("UNPACK")
    return _Uses(
        frozenset(asked),
        frozenset(names),
        frozenset(dropped),
        frozenset(read),
        is_crossed and bool(names),
    )


def _asks(step: dis.Instruction, before: dis.Instruction) -> bool:
    if step.opname == "IS_OP":
        return before.opname == "LOAD_CONST" and before.argval is None
    return step.opname.startswith("POP_JUMP") and step.opname.endswith("NONE")


def _names(step: dis.Instruction) -> set[str]:
    """Return the variables that an instruction loads; newer versions of Python load two at once."""
    if not step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
        return set()
    return set(step.argval) if isinstance(step.argval, tuple) else {str(step.argval)}
