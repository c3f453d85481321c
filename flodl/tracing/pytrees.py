"""Nests of values: tuples, lists, dicts, named tuples and objects that contain flows.

Everything here looks at `type(value)`, never at `isinstance`: a `Flow` claims the class of the value
that it carries, so that `isinstance(x, torch.Tensor)` in user code keeps its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flodl.tracing.containers import DICTS, LISTS, TUPLES, written_flow
from flodl.tracing.flow_value import is_flow
from flodl.tracing.object_pytrees import shell_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer


# Immutable values of Python: results computed from them can be computed again.
PLAIN_KINDS = frozenset({bool, int, float, complex, str, torch.Size, torch.dtype, torch.device})


def map_leaves(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return the same nest with every leaf replaced by `leaf(value)`."""
    kind = type(value)
    written = written_flow(value)
    if written is not None:
        return leaf(written)
    if kind in TUPLES:
        return tuple(map_leaves(item, leaf) for item in value)
    if kind in LISTS:
        return [map_leaves(item, leaf) for item in value]
    if kind in DICTS:
        return {_mapped_key(key, leaf): map_leaves(item, leaf) for key, item in value.items()}
    if kind is slice:
        return slice(*(map_leaves(part, leaf) for part in (value.start, value.stop, value.step)))
    if is_named_tuple(value):
        return kind(*(map_leaves(item, leaf) for item in value))
    shell = shell_of(value)
    if shell is not None:
        make, parts = shell
        return make(**{name: map_leaves(part, leaf) for name, part in parts.items()})
    return leaf(value)


def _mapped_key(key: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return the key of a dict: a flow, such as a key of a step's result or a part of a tuple, is a leaf."""
    if type(key) is tuple:
        return tuple(_mapped_key(part, leaf) for part in key)
    return leaf(key) if is_flow(key) else key


def is_named_tuple(value: object) -> bool:
    """Return True if a value is an instance of a tuple class with named fields."""
    kind = type(value)
    return issubclass(kind, tuple) and "_fields" in kind.__dict__


def tracer_of(flow: Flow) -> Tracer:
    """Return the tracer that a flow belongs to."""
    tracer: Tracer = object.__getattribute__(flow, "_tracer")
    return tracer


def leaves(value: Any) -> list[Any]:
    """Return all leaves of a nest, left to right."""
    found: list[Any] = []

    def collect(item: Any) -> Any:
        found.append(item)
        return item

    map_leaves(value, collect)
    return found
