"""The operators of Python on a `Flow`: each one records a node."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.proxy import Flow
    from flodl.tracing.tracer import Tracer


def _binary(name: str, function: Callable[[Any, Any], Any]) -> Callable[[Flow, Any], Any]:
    def forward(self: Flow, other: Any) -> Any:
        tracer: Tracer = object.__getattribute__(self, "_tracer")
        return tracer.step("operator", name, (self, other), compute=function)

    return forward


def _reflected(name: str, function: Callable[[Any, Any], Any]) -> Callable[[Flow, Any], Any]:
    def forward(self: Flow, other: Any) -> Any:
        tracer: Tracer = object.__getattribute__(self, "_tracer")
        return tracer.step("operator", name, (other, self), compute=function)

    return forward


def _unary(name: str, function: Callable[[Any], Any]) -> Callable[[Flow], Any]:
    def forward(self: Flow) -> Any:
        tracer: Tracer = object.__getattribute__(self, "_tracer")
        return tracer.step("operator", name, (self,), compute=function)

    return forward


def install_operators(flow: type[Flow]) -> None:
    """Give `Flow` the operators of Python; each records one node."""
    arithmetic = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul",
                  "and_", "or_", "xor", "lshift", "rshift")  # fmt: skip
    for name in arithmetic:
        bare = name.strip("_")
        function = getattr(operator, name)
        setattr(flow, f"__{bare}__", _binary(name, function))
        setattr(flow, f"__r{bare}__", _reflected(name, function))
        in_place = getattr(operator, f"i{bare}")
        setattr(flow, f"__i{bare}__", _binary(f"i_{bare}", in_place))
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "delitem"):
        setattr(flow, f"__{name}__", _binary(name, getattr(operator, name)))
    for name in ("neg", "pos", "invert"):
        setattr(flow, f"__{name}__", _unary(name, getattr(operator, name)))
    flow.__abs__ = _abs  # type: ignore[attr-defined]
    flow.__round__ = _round  # type: ignore[attr-defined]
    flow.__divmod__ = _divmod  # type: ignore[operator]
    flow.__rdivmod__ = _reflected_divmod  # type: ignore[attr-defined]


def _round(self: Flow, *digits: Any) -> Any:
    tracer: Tracer = object.__getattribute__(self, "_tracer")
    return tracer.step("function", "round", (self, *digits), compute=round)


def _divmod(self: Flow, other: Any) -> Any:
    tracer: Tracer = object.__getattribute__(self, "_tracer")
    return tracer.step("function", "divmod", (self, other), compute=divmod)


def _reflected_divmod(self: Flow, other: Any) -> Any:
    tracer: Tracer = object.__getattribute__(self, "_tracer")
    return tracer.step("function", "divmod", (other, self), compute=divmod)


def _abs(self: Flow) -> Any:
    tracer: Tracer = object.__getattribute__(self, "_tracer")
    return tracer.step("function", "operator.abs", (self,), compute=operator.abs)
