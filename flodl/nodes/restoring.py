"""Reconstruction of ordered dicts, results with attributes and the like around new values."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The classes that own the memory of an object, the more special ones first.
CONTAINERS: tuple[type, ...] = (OrderedDict, defaultdict, dict, deque, list, tuple)
LAYOUTS: tuple[type, ...] = (*CONTAINERS, SimpleNamespace)


def layout_of(kind: type) -> type:
    """Return the class of Python whose objects an object of a class is laid out like."""
    return next((layout for layout in LAYOUTS if issubclass(kind, layout)), object)


def restored(
    kind: type,
    *,
    items: Iterable[Any] = (),
    table: Mapping[Any, Any] | None = None,
    setting: Any = None,
    attributes: Mapping[str, Any] | None = None,
    is_its_own_table: bool = False,
) -> Any:
    """Return an object as it is after it was made and filled, without doing either again.

    Args:
        kind: its class; no method of it is called.
        items: of a list, tuple or deque.
        table: of a dict.
        setting: the factory of a `defaultdict`, the longest length of a `deque`.
        attributes: the contents of the object's `__dict__`.
        is_its_own_table: whether the object is its own `__dict__`: attributes are its items.
    """
    layout = layout_of(kind)
    made: Any = layout.__new__(kind, items) if layout is tuple else layout.__new__(kind)  # type: ignore[call-overload]
    if layout is deque:
        deque.__init__(made, items, setting)
    elif layout is list:
        list.extend(made, items)
    elif layout is defaultdict:
        defaultdict.__init__(made, setting)
    # `update` of an ordered dict would call what the class has made of `__setitem__`.
    put = OrderedDict.__setitem__ if layout is OrderedDict else dict.__setitem__
    for key, value in (table or {}).items():
        put(made, key, value)
    if is_its_own_table:
        made.__dict__ = made
    elif attributes:
        vars(made).update(attributes)
    return made
