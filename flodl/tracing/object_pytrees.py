"""Objects around flows that are neither list, tuple nor dict: how each call makes its own.

Examples are an `OrderedDict` of results, a `defaultdict`, a dataclass, or an object of the user's class
that was made in the flow. It holds flows during the trace, and must hold the values of the call at hand in
every call.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

import torch
from torch import nn

from flodl.errors import FlowError
from flodl.nodes.restoring import CONTAINERS, LAYOUTS, layout_of, restored
from flodl.tracing.callsite import call_site
from flodl.tracing.flow_value import FlowValueMixin

# The function to call, and the parts that it gets by name.
Shell: TypeAlias = tuple[Callable[..., Any], dict[str, Any]]

_NEVER = (nn.Module, torch.Tensor, type, FunctionType, ModuleType)
# A class written in Python: only such objects are known to keep everything in `__dict__`.
_WRITTEN_IN_PYTHON = 1 << 9
_DEPTH = 6


def shell_of(value: Any) -> Shell | None:
    """Return how an object is made again around other values; nothing if it holds no flow.

    Raises:
        FlowError: it holds one, and cannot be made again.
    """
    kind = type(value)
    if not _may_hold(kind):
        _refuse_hidden(value)
        return None
    if not _holds_flow(value, _DEPTH, set()):
        return None
    fields = dataclass_fields(value)
    if fields:
        return kind, {name: getattr(value, name) for name in fields}
    layout = layout_of(kind)
    parts: dict[str, Any] = {"kind": kind}
    if issubclass(layout, dict):
        parts["table"] = dict(value)
    elif layout in CONTAINERS:
        parts["items"] = list(value)
    if isinstance(value, defaultdict):
        parts["setting"] = value.default_factory
    elif isinstance(value, deque):
        parts["setting"] = value.maxlen
    inside = getattr(value, "__dict__", None)
    if inside is value:
        parts["is_its_own_table"] = True
    elif inside:
        parts["attributes"] = dict(inside)
    return restored, parts


def dataclass_fields(value: object) -> tuple[str, ...]:
    """Return the field names if a value is an instance of a dataclass, else nothing."""
    if not dataclasses.is_dataclass(type(value)):
        return ()
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(value)  # type: ignore[arg-type]
    return tuple(each.name for each in fields if each.init)


def _refuse_hidden(value: Any) -> None:
    kind = type(value)
    if issubclass(kind, (set, frozenset)):
        inside, place = list(value), "a list"
    elif kind.__flags__ & _WRITTEN_IN_PYTHON and not kind.__module__.startswith("flodl."):
        inside, place = (
            [getattr(value, name, None) for name in _slots(kind)],
            "a dataclass or dict",
        )
    else:
        return
    if any(_holds_flow(each, 1, set()) for each in inside):
        message = (
            f"{call_site()}: a value of the flow was put into a {kind.__name__}, which cannot be made "
            f"again in every call; use {place}"
        )
        raise FlowError(message)


def _may_hold(kind: type) -> bool:
    if issubclass(kind, _NEVER) or kind.__module__.startswith("flodl."):
        return False
    if kind in LAYOUTS or dataclasses.is_dataclass(kind):
        return kind not in (dict, list, tuple)
    return bool(kind.__flags__ & _WRITTEN_IN_PYTHON) and not _slots(kind)


def _slots(kind: type) -> set[str]:
    found: set[str] = set()
    for each in kind.__mro__[:-1]:
        names = vars(each).get("__slots__", ())
        found |= {names} if isinstance(names, str) else set(names)
    return found - {"__dict__", "__weakref__"}


def _holds_flow(value: Any, depth: int, seen: set[int]) -> bool:

    kind = type(value)
    if issubclass(kind, FlowValueMixin):
        return True
    container = issubclass(kind, CONTAINERS)
    if depth == 0 or id(value) in seen or not (container or _may_hold(kind)):
        return False
    seen.add(id(value))
    inside = list(getattr(value, "__dict__", {}).values()) if _may_hold(kind) else []
    if container:
        inside += [*value, *value.values()] if issubclass(kind, dict) else value
    elif dataclasses.is_dataclass(kind):
        inside += [getattr(value, name, None) for name in dataclass_fields(value)]
    return any(_holds_flow(each, depth - 1, seen) for each in inside)
