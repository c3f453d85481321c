"""None checks on the result of a step: `if mask is not None`, which no proxy can observe.

A step may return `None` in one call and a tensor in the next.  The flow then gets `None`, and
the branch that it takes is a separate path through the graph, as with every other guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

from flodl.bytecode.decode import instructions, running_offset
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import LOADS, STORES, Kind
from flodl.bytecode.operands import operands

if TYPE_CHECKING:
    from types import CodeType, FrameType

_READS = LOADS | {Kind.LOAD_CLOSURE}


@final
class _Uses(NamedTuple):
    """The uses of results: offsets of instructions, and names of variables.

    Attributes:
        asked: the instructions whose result is compared with `None`, itself or out of a variable.
        asked_names: variables that are.
        dropped: instructions whose result nothing takes.
        read_names: variables that something reads.
    """

    asked: frozenset[int]
    asked_names: frozenset[str]
    dropped: frozenset[int]
    read_names: frozenset[str]


def is_asked(frame: FrameType | None, variable: str) -> bool:
    """Return True if a frame compares the running instruction's result, or its variable, with `None`."""
    if frame is None:
        return False
    uses = _uses(frame.f_code)
    if variable:
        return variable in uses.asked_names
    return running_offset(frame) in uses.asked


def is_dropped(frame: FrameType | None, variable: str) -> bool:
    """Return True if nothing takes the running instruction's result, or reads its variable."""
    if frame is None:
        return False
    uses = _uses(frame.f_code)
    if variable:
        return variable not in uses.read_names
    return running_offset(frame) in uses.dropped


@kept_by_identity
def _uses(code: CodeType) -> _Uses:
    steps, taken = instructions(code), operands(code)
    takers: dict[int, set[Kind]] = {}
    for step, sources in zip(steps, taken, strict=True):
        for each in frozenset().union(*sources):
            takers.setdefault(each, set()).add(step.kind)
    asked = {each for each, kinds in takers.items() if Kind.IS_NONE in kinds}
    stores = [
        (step.name, sources[0])
        for step, sources in zip(steps, taken, strict=True)
        if step.kind in STORES
    ]
    names: set[str] = set()
    found = {steps[each].name for each in asked if steps[each].kind in LOADS}
    while found - names:  # after `mask = other`, a check of `mask` is a check of `other`
        names |= found
        asked |= {each for name, sources in stores if name in names for each in sources}
        found = {steps[each].name for each in asked if steps[each].kind in LOADS}
    return _Uses(
        frozenset(steps[each].offset for each in asked),
        frozenset(names),
        frozenset(steps[each].offset for each, kinds in takers.items() if kinds == {Kind.POP_TOP}),
        frozenset(step.name for step in steps if step.kind in _READS) | {*code.co_cellvars},
    )
