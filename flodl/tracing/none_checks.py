"""Where Python asks whether the result of a step is there: `if mask is not None`, which no handle can hear.

A step may return `None` in one call and a tensor in the next.  `None` is what the flow then gets, and what
it does with it is a way of its own through the graph, as with every other answer that Python gets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, final

from flodl.bytecode.decode import instructions, running_offset
from flodl.bytecode.instruction import LOADS, STORES, Kind

if TYPE_CHECKING:
    from types import CodeType, FrameType

_READS = LOADS | {Kind.LOAD_CLOSURE}
_UNPACKS = frozenset({Kind.UNPACK, Kind.UNPACK_STARRED})


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
    steps = instructions(code)
    asked, names, dropped, read = set(), set(), set(), set(code.co_cellvars)
    # `a, b = f(x), g(x)` stores its results when the last of them is there.
    is_crossed = in_parts = False
    for position, step in enumerate(steps):
        before = steps[position - 1] if position else step
        if step.kind is Kind.POP_TOP and before.kind is not Kind.JUMP_IF:
            dropped.add(before.offset)
        elif step.kind in _READS:
            read.add(step.name)
        elif step.kind is Kind.IS_NONE:
            thing = position - 1
            if before.kind in STORES:  # (mask := f(x)) is None: copied, then stored
                thing -= 2
            if steps[thing].kind in _READS:
                names.add(steps[thing].name)
            asked.add(steps[thing].offset)
        if step.kind in STORES and before.kind in STORES:
            is_crossed |= not in_parts
        else:
            in_parts = before.kind in _UNPACKS
    return _Uses(
        frozenset(asked),
        frozenset(names),
        frozenset(dropped),
        frozenset(read),
        is_crossed and bool(names),
    )
