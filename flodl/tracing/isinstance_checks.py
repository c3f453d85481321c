"""Checks of a Flow's class: by Python, which gets that of the value, or by torch's argument parser.

The parser takes any object that calls itself a tensor for one in memory, reads its fields, and the process
dies.  Where it expects a number (`torch.full(size, n)`) nothing warns it, so a Flow of a tensor says
that it is one only to Python itself: `isinstance`, `x.__class__`, a class pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from flodl.bytecode.decode import instructions, running_offset
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import LOADS, Kind
from flodl.bytecode.operands import callee, operands
from flodl.errors import FlowError
from flodl.tracing.callsite import site_of
from flodl.tracing.flow_value import UNKNOWN, NeedsValueError, flow_value, is_flow

if TYPE_CHECKING:
    from types import CodeType, FrameType

_CLASS_CHECKS = frozenset({"isinstance"})
_TYPE = frozenset({"type"})
_NAMED = LOADS | {Kind.LOAD_GLOBAL, Kind.LOAD_ATTR}
_CALLS = frozenset({Kind.CALL, Kind.CALL_UNPACKED})
_CONSTRUCTORS = frozenset({
    "Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "ByteTensor", "CharTensor",
    "ShortTensor", "IntTensor", "LongTensor", "BoolTensor",
})  # fmt: skip


def answers_class(kind: type | None, frame: FrameType) -> bool:
    """Return True if a Flow answers with the class of its value, which may be a tensor or not known.

    Args:
        kind: the class of the value.
        frame: the frame that reads the class, itself or through a C function that it calls.

    Raises:
        FlowError: the reader is a legacy constructor such as `torch.FloatTensor`; it cannot be described.
    """
    constructor = _calls_of(frame.f_code, _CONSTRUCTORS).get(running_offset(frame))
    if constructor is not None:
        message = (
            f"{site_of(frame)}: `{constructor}` makes its tensor from real numbers only and cannot be given "
            f"a Flow; write call(torch.{constructor}, ...), or torch.empty(...) for a size and "
            "torch.tensor(...) for values"
        )
        raise FlowError(message)
    if kind is not None and not issubclass(kind, torch.Tensor):
        return True
    code = frame.f_code
    return code.co_name == "__instancecheck__" or running_offset(frame) in _questions(code)


@kept_by_identity
def _questions(code: CodeType) -> frozenset[int]:
    """Return the offsets of `isinstance(...)`, of reads of `__class__` and of class patterns."""
    return frozenset(_calls_of(code, _CLASS_CHECKS)) | {
        step.offset
        for step in instructions(code)
        if step.kind is Kind.MATCH_CLASS
        or (step.kind is Kind.LOAD_ATTR and step.name == "__class__")
    }


def require_no_type_of_flow(frame: FrameType) -> None:
    """Refuse `type(x) is torch.Tensor`, where Python takes the class of the proxy.

    Raises:
        FlowError: a flow of that very class is compared; with any other class, the answer is right.
        NeedsValueError: only a value can tell.
    """
    for name, kind in _compared_types(frame.f_code):
        held = frame.f_locals.get(name)
        if not is_flow(held):
            continue
        if flow_value(held) is UNKNOWN:
            raise NeedsValueError
        if type(flow_value(held)).__name__ == kind:
            message = (
                f"{site_of(frame)}: `type({name})` gives the class of the proxy, not that of its value; "
                f"write isinstance({name}, ...) or {name}.__class__"
            )
            raise FlowError(message)


@kept_by_identity
def _compared_types(code: CodeType) -> frozenset[tuple[str, str]]:
    """Return variables whose class a function compares, each with the last name of the other class."""
    steps, taken = instructions(code), operands(code)
    calls = _calls_of(code, _TYPE)
    found: set[tuple[str, str]] = set()
    for position, step in enumerate(steps):
        if step.kind not in (Kind.IS, Kind.COMPARE):
            continue
        made = [steps[each] for sources in taken[position] for each in sources]
        kinds = {each.name for each in made if each.kind in _NAMED}
        for sources in taken[position]:
            for call in sources:
                if steps[call].offset in calls and steps[call].count == 1:
                    asked = {steps[each].name for each in taken[call][-1]}
                    found |= {(name, kind) for name in asked for kind in kinds}
    return frozenset(found)


@kept_by_identity
def _calls_of(code: CodeType, names: frozenset[str]) -> dict[int, str]:
    """Map the offsets of calls to the name of what they call, for callables with one of some names."""
    steps, taken = instructions(code), operands(code)
    found: dict[int, str] = {}
    for position, step in enumerate(steps):
        if step.kind in _CALLS:
            loads = (steps[each] for each in callee(step, taken[position]))
            called = {load.name for load in loads if load.kind in _NAMED} & names
            if called:
                found[step.offset] = min(called)
    return found
