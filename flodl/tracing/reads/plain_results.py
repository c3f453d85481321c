"""Results that Python compares by itself, without a method of the proxy that stands for them.

    x.dtype is torch.float32        `is` never asks the object
    match x.shape:                  neither does a pattern of a sequence, before it knows that it is one
        case (2, n): ...
    match x.unbind():               the proxy of a tuple is none: `case [a, b]` would not match
        case [a, b]: ...

In a function with such a comparison, a step whose result is of these kinds gives the result itself, with a
guard on it. A list or tuple with other values is given as one of proxies, with a guard on its length. A
description without values, where the results are unknown, ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from flodl.bytecode.decode import instructions
from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import Kind

if TYPE_CHECKING:
    from types import CodeType

_SINGLETONS: Final = frozenset({bool, torch.dtype, torch.layout, torch.memory_format})
_SEQUENCES: Final = frozenset({torch.Size, tuple, list})
_MAPPINGS: Final = frozenset({dict})


def compares_identity(code: CodeType) -> bool:
    """Return True if a function compares by `is`, with something else than None."""
    return plain_results(code) >= _SINGLETONS


@kept_by_identity
def plain_results(code: CodeType) -> frozenset[type]:
    """Return the kinds of results that a function compares by itself; mostly none."""
    found: frozenset[type] = frozenset()
    before = None
    for step in instructions(code):
        # `is None` needs nothing: the result of a step that gives None is None itself.
        if step.kind is Kind.IS and not (
            before is not None and before.kind is Kind.LOAD_CONST and before.value is None
        ):
            found |= _SINGLETONS
        elif step.kind is Kind.MATCH_SEQUENCE:
            found |= _SEQUENCES
        elif step.kind is Kind.MATCH_MAPPING:
            found |= _MAPPINGS
        before = step
    return found
