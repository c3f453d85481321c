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

if TYPE_CHECKING:
    from types import CodeType, FrameType

_CLASS_CHECKS = frozenset({"isinstance"})
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
