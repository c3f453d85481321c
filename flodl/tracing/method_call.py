"""Methods of a flow's value, such as `x.exp` in `x.exp()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import torch

from flodl.errors import FlowError
from flodl.tracing.callsite import call_site
from flodl.tracing.flow_value import UNKNOWN, NeedsValueError
from flodl.tracing.torch_call_names import VALUE_METHODS

if TYPE_CHECKING:
    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer


@final
class Method:
    """A method of a flow's value, waiting to be called."""

    __slots__ = ("_flow", "_name")

    def __init__(self, flow: Flow, name: str) -> None:
        self._flow = flow
        self._name = name

    def _require_method(self) -> None:
        """Require that this is known to be a method: `type` is one of a tensor, and a text of a device.

        Raises:
            NeedsValueError: only a value can tell.
        """
        if object.__getattribute__(self._flow, "_value") is UNKNOWN:
            raise NeedsValueError

    def __eq__(self, other: object) -> bool:
        self._require_method()
        return self is other

    def __hash__(self) -> int:
        self._require_method()
        return id(self)

    def __bool__(self) -> bool:
        self._require_method()
        return True

    def __str__(self) -> str:
        self._require_method()
        return repr(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record the call of the method."""
        flow, name = self._flow, self._name
        tracer: Tracer = object.__getattribute__(flow, "_tracer")
        refuse_value_method(flow, name)
        return tracer.step(
            "method", name, (flow, *args), kwargs,
            compute=lambda owner, /, *rest, **named: getattr(owner, name)(*rest, **named),
        )  # fmt: skip


def refuse_value_method(flow: Flow, name: str) -> None:
    """Refuse a method that needs the value of a tensor.

    Raises:
        FlowError: the method is one of `item`, `tolist`, `numpy` and the like.
    """
    value = object.__getattribute__(flow, "_value")
    if name in VALUE_METHODS and (value is UNKNOWN or isinstance(value, torch.Tensor)):
        message = (
            f"{call_site()}: `.{name}()` asks for the value of a tensor, which only a run can know; "
            "keep the part as a callable: x.through(function)"
        )
        raise FlowError(message)
