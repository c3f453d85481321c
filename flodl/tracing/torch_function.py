"""Calls of the torch API during a recording, as torch's own dispatch reports them."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from flodl.errors import FlowError
from flodl.tracing.callsite import site_of, user_frame
from flodl.tracing.naming import importable_name
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import leaves, map_leaves
from flodl.tracing.torch_call_names import VALUE_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.tracer import Tracer

_SWITCHES = frozenset({"_set_grad_enabled", "set_grad_enabled", "_set_deterministic_algorithms"})
_PASSED_ON = frozenset(
    {"__repr__", "__str__", "__format__", "__hash__", "__reduce_ex__", "__len__"}
)
_OPERATORS = {
    "add": "add", "__add__": "add", "sub": "sub", "__sub__": "sub", "mul": "mul", "__mul__": "mul",
    "true_divide": "truediv", "div": "truediv", "__truediv__": "truediv", "matmul": "matmul",
    "__matmul__": "matmul", "__pow__": "pow", "pow": "pow", "__and__": "and_", "__or__": "or_",
    "__xor__": "xor", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
    "__mod__": "mod", "__floordiv__": "floordiv", "neg": "neg", "__neg__": "neg", "__invert__": "invert",
}  # fmt: skip
_REFLECTED = {
    "__radd__": "add", "__rsub__": "sub", "__rmul__": "mul", "__rtruediv__": "truediv", "__rdiv__": "truediv",
    "__rmatmul__": "matmul", "__rpow__": "pow", "__rfloordiv__": "floordiv", "__rmod__": "mod",
}  # fmt: skip


def record_torch_call(
    tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Record one call that torch reported and return the flow of its result.

    Raises:
        FlowError: the call needs the value of a tensor.
    """
    name = _name(func)
    if name in _SWITCHES:  # the next step sees the switched mode and refuses it
        return func(*args, **kwargs)
    if name in _PASSED_ON and not any(type(leaf) is Flow for leaf in leaves(args)):
        return func(*args, **kwargs)
    if name in VALUE_METHODS:
        place = site_of(user_frame(2))
        message = (
            f"{place}: the flow asks for the value of a tensor (`{name.strip('_')}`), which only a run "
            "can know; keep the part as a callable: x.through(function)"
        )
        raise FlowError(message)
    if name in ("__get__", "__set__"):
        return _property(tracer, func, args)
    if _is_method(func, name):
        return _method(tracer, func, name, args, kwargs)
    target = importable_name(func) or tracer.encoder.callable_name(func)
    kwargs = _without_defaults(func, kwargs)
    return tracer.step("function", target, args, kwargs, compute=func)


def _name(func: Callable[..., Any]) -> str:
    try:
        return func.__name__
    except AttributeError:
        return type(func).__name__


def _property(tracer: Tracer, func: Any, args: tuple[Any, ...]) -> Any:
    """Record the read or write of a tensor property; torch passes the property's `__get__`/`__set__`."""
    attribute = func.__self__.__name__
    if func.__name__ == "__get__":
        return tracer.step("attribute", attribute, args[:1], compute=func)
    tracer.step("setattr", attribute, args[:2], compute=func)
    return None


@lru_cache(maxsize=2048)
def _is_method(func: Callable[..., Any], name: str) -> bool:
    method = inspect.getattr_static(torch.Tensor, name, None)
    return method is func


def _method(
    tracer: Tracer,
    func: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if name == "__setitem__":
        tracer.step("operator", "setitem", args, compute=func)
        return None
    if name == "__getitem__":
        return tracer.step("item", "", args, compute=func)
    if name in _OPERATORS and not kwargs and len(args) in (1, 2):
        return tracer.step("operator", _OPERATORS[name], args, compute=func)
    if name in _REFLECTED and len(args) == 2:
        return tracer.step(
            "operator", _REFLECTED[name], args[::-1], compute=lambda left, right: func(right, left)
        )
    return tracer.step("method", name, args, kwargs, compute=func)


@lru_cache(maxsize=2048)
def _defaults(func: Callable[..., Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature
        return {}
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def _without_defaults(func: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Drop keyword arguments that repeat the default: torch's Python functions report all of theirs."""
    if not kwargs:
        return kwargs
    defaults = _defaults(func)
    return {
        key: value
        for key, value in kwargs.items()
        if type(value) is Flow or key not in defaults or not _same(value, defaults[key])
    }


def _same(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and map_leaves(value, repr) == map_leaves(default, repr)
    )
