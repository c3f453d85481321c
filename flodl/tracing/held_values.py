"""Values of the world outside, held by objects that a flow makes: each needs a guard.

Example: `Box` is a class of the user, and only `scale` looks into a box.

    def flow(self, x):
        return x.through(scale, Box(self.weight))

The flow runs once, so the plan keeps this box as a constant, and with it the parameter of the first call.
After `load_state_dict(..., assign=True)` another parameter is in its place. `held_by` leads from the box to
the parameter. The encoder guards it where the flow has read it: `self._parameters['weight'] is weight_`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

_ITEMS = (list, tuple, set, frozenset, deque)
# The values of these are read where they are used: a step reads modules, and code its globals.
_CLOSED = (nn.Module, torch.Tensor, type)
# A class written in Python: only the attributes of such objects are looked into.
_WRITTEN_IN_PYTHON = 1 << 9


def all_held_by(value: object, is_known: Callable[[object], bool]) -> Iterator[object]:
    """Yield the objects inside an object for which `is_known(part)` is true; those are not looked into."""
    seen, waiting = {id(value)}, [value]
    while waiting:
        for part in held_by(waiting.pop()):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if is_known(part):
                yield part
            else:
                waiting.append(part)


def held_by(value: Any) -> Iterator[object]:
    """Yield what an object holds: items, attributes, arguments of a partial, free variables and defaults."""
    kind = type(value)
    if issubclass(kind, _CLOSED):
        return
    if issubclass(kind, dict):
        yield from dict.keys(value)
        yield from dict.values(value)
    elif issubclass(kind, _ITEMS):
        yield from kind.__iter__(value)
    elif kind is partial:
        yield from (value.func, *value.args, *value.keywords.values())
    elif kind is MethodType:
        yield value.__self__
    elif kind is FunctionType:
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_full(cell))
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    if kind is not ModuleType:
        yield from getattr(value, "__dict__", {}).values()
    if kind.__flags__ & _WRITTEN_IN_PYTHON:
        for each in kind.__mro__:
            slots = [slot for slot in vars(each).values() if type(slot) is MemberDescriptorType]
            yield from (slot.__get__(value) for slot in slots if _has(slot, value))


def _has(slot: Any, value: object) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
