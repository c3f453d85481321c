"""Objects of the user's classes that a flow makes and a step changes: a later call would get them changed.

A flow is run once. An object that it makes with plain Python, `cache = Cache()`, is a constant of the plan:
if a step changes it, the second call would begin with the object of the first one.
"""

from __future__ import annotations

import gc
from collections import deque
from functools import cached_property
from inspect import getattr_static
from itertools import islice
from types import FrameType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, final

import torch
from torch import nn

from flodl.errors import FlowError
from flodl.tracing.callsite import call_site
from flodl.tracing.containers import LISTS, TUPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# A class written in Python; others, such as a device or a generator, are not looked into.
_WRITTEN_IN_PYTHON = 1 << 9
_NEVER = (nn.Module, torch.Tensor, type, tuple, BaseException)
_DEPTH = 8
# So many objects are looked at, per object and on the way to who holds it.
_MANY = 10_000


@final
class OwnObjects:
    """The objects among the arguments of one step, as they are before it."""

    def __init__(
        self, compute: Callable[..., Any], theirs: tuple[Any, ...], given: Sequence[Any]
    ) -> None:
        owner = compute.__self__ if type(compute) is MethodType else None
        self._before = [
            (mine, each, _state(each))
            for mine, each in ((owner, owner), *zip(theirs, given, strict=True))
            if is_written_in_python(type(each)) and is_written_in_python(type(mine))
        ]

    def require_unchanged(self, recording: tuple[Any, ...]) -> None:
        """Require that the step has changed no object that the flow has made.

        Args:
            recording: holders of the flow's objects that are not outside of it.

        Raises:
            FlowError: it has, and a later call would get the changed object, or one that was not changed.
        """
        for mine, given, before in self._before:
            if _state(given) == before:
                continue
            if mine is not given or not is_held_outside(given, (self._before, *recording)):
                kind = type(given).__name__
                message = (
                    f"{call_site()}: a step changes the {kind} that the flow has made, and a flow is run "
                    "once: every later call would get the same object; "
                    f"make it in a step as well, call({kind}, ...)"
                )
                raise FlowError(message)


def is_written_in_python(kind: type) -> bool:
    """Return True if the objects of a class are the user's own: everything known of them can be looked at."""
    if issubclass(kind, _NEVER) or kind.__module__.partition(".")[0] in ("flodl", "torch"):
        return False
    return bool(kind.__flags__ & _WRITTEN_IN_PYTHON)


def _state(value: Any) -> list[Any]:
    """Return a key that changes with an object: the identities of its contents."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting = [(value, _DEPTH)]
    while waiting and len(found) < _MANY:
        each, depth = waiting.pop()
        found.append((id(each), each._version if type(each) is torch.Tensor else 0))
        if depth and id(each) not in seen:
            seen.add(id(each))
            inside = list(islice(_inside(each), _MANY))
            found.append(len(inside))
            waiting += [(part, depth - 1) for part in inside]
    return found


def _inside(value: Any) -> Iterator[Any]:
    kind = type(value)
    if isinstance(value, dict):
        yield from dict.values(value)
    elif kind in (*LISTS, *TUPLES, set, deque):
        yield from value
    if is_written_in_python(kind):
        for name, each in getattr(value, "__dict__", {}).items():
            # The memory of a cached property changes no result.
            if type(getattr_static(kind, name, None)) is not cached_property:
                yield each


def is_held_outside(value: Any, recording: tuple[Any, ...]) -> bool:
    """Return True if a module, a class, a layer or a global variable leads to an object.

    Holders that `gc.freeze()` has set aside cannot be found; where there are some, nothing is claimed.
    """
    if gc.get_freeze_count():
        return True
    seen = {id(each) for each in recording}
    waiting = [value]
    seen.add(id(waiting))
    while waiting and len(seen) < _MANY:
        # Since Python 3.13 the tuple of arguments is found as a holder of what it holds.
        arguments = tuple(waiting)
        seen.add(id(arguments))
        holders = gc.get_referrers(*arguments)
        seen.add(id(holders))
        waiting = []
        seen.add(id(waiting))
        for holder in holders:
            if id(holder) in seen or type(holder) is FrameType:
                continue
            if _is_outside(holder):
                return True
            seen.add(id(holder))
            waiting.append(holder)
    return bool(waiting)


def _is_outside(holder: Any) -> bool:
    if isinstance(holder, (nn.Module, ModuleType, type)):
        return True
    return type(holder) is dict and "__builtins__" in holder
