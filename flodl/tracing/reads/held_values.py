"""Values of the world outside, held by objects that a flow makes: each needs a guard.

Example: `Box` is a class of the user, and only `scale` looks into a box.

    def flow(self, x):
        return x.through(scale, Box(self.weight))

The flow runs once, so the plan keeps this box as a constant, and with it the parameter of the first call.
After `load_state_dict(..., assign=True)` another parameter is in its place. `held_by` leads from the box to
the parameter. The encoder guards it where the flow has read it: `self._parameters['weight'] is weight_`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

import torch

# None of these leads to a value that a step computes with.
_CLOSED = (torch.Tensor, CodeType, FrameType, TracebackType, bool, int, float, complex, str, bytes)


def all_held_by(value: object, is_known: Callable[[object], bool]) -> Iterator[object]:
    """Yield the objects inside an object for which `is_known(part)` is true; those are not looked into."""
    # The parts are kept, so that no identity is used twice.
    seen: dict[int, object] = {id(value): value}
    waiting = [value]
    while waiting:
        for part in held_by(waiting.pop()):
            if id(part) in seen:
                continue
            seen[id(part)] = part
            if is_known(part):
                yield part
            else:
                waiting.append(part)


def held_by(value: Any) -> Iterator[object]:
    """Yield what an object refers to; of code, only what it does not read anew in every call.

    A function reads its globals in every call, and keeps free variables and defaults. Modules and classes
    that can be imported are read by name.
    """
    if isinstance(value, _CLOSED):
        return
    if isinstance(value, FunctionType):
        yield from (value.__closure__ or (), value.__defaults__ or (), value.__kwdefaults__ or {})
        yield from vars(value).values()
    elif isinstance(value, ModuleType | type):
        if not _is_importable(value):
            yield from vars(value).values()
    else:
        yield from gc.get_referents(value)


def _is_importable(value: ModuleType | type) -> bool:
    if isinstance(value, ModuleType):
        return sys.modules.get(value.__name__) is value
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value
