"""The parts of a flow that all of tracing reads: its node, its value, and whether an object is a flow.

A `Flow` claims the class of the value it stands for, so `isinstance(x, Flow)` asks about that value:

    x = 3 in a flow            # type(x) is Flow, isinstance(x, int) is True
    is_flow(x)                 # True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard, final

if TYPE_CHECKING:
    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer


@final
class _Unknown:
    """The value of a flow that is only described."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


@final
class NeedsValueError(BaseException):
    """A description without values needs one; internal, hence not an `Exception`."""


class FlowValueMixin:
    """The slots of a flow: its tracer, its node, its value, and the class of a value that is unknown."""

    __slots__ = ("__weakref__", "_known", "_node", "_tracer", "_value")

    def __init__(self, tracer: Tracer, node: int, value: Any, known: type | None) -> None:
        object.__setattr__(self, "_tracer", tracer)
        object.__setattr__(self, "_node", node)
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "_known", known)


def is_flow(value: object) -> TypeGuard[Flow]:
    """Return True for a flow, whatever class it claims."""
    return issubclass(type(value), FlowValueMixin)


def flow_node(flow: Flow) -> int:
    """Return the node index of a flow."""
    index: int = object.__getattribute__(flow, "_node")
    return index


def flow_value(flow: Flow) -> Any:
    """Return the value that a flow carries, or `UNKNOWN`."""
    return object.__getattribute__(flow, "_value")


def unwrap(leaf: Any) -> Any:
    """Return the value of a flow, and anything else as it is."""
    return flow_value(leaf) if is_flow(leaf) else leaf
