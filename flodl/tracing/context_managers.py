"""`with` blocks of a flow: gradient and autocast modes, profiler labels, silenced warnings.

While a flow is recorded, entering such a context is a node, and so is leaving it; the generated code has
the same `with` block around the nodes in between.  Any other context manager is the value of a step.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, final

import torch
from torch.amp.autocast_mode import autocast

from flodl.errors import FlowError
from flodl.graph.entered import swallowing
from flodl.tracing.active import current_tracer
from flodl.tracing.flow_value import UNKNOWN, NeedsValueError, flow_value, unwrap
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import map_leaves, tracer_of
from flodl.tracing.readings import grad_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flodl.tracing.tracer import Tracer


def _autocast_arguments(context: Any) -> dict[str, Any]:
    return {
        "device_type": context.device,
        "dtype": context.fast_dtype,
        "enabled": context._enabled,
        "cache_enabled": context._cache_enabled,
        **vars(context).get("_flodl_given", {}),
    }


def _warnings_arguments(context: Any) -> dict[str, Any]:
    return {"record": context._record}


# Per class: its name in generated code, and the arguments that make another one like it.
_CONTEXTS: dict[type, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    torch.no_grad: ("torch.no_grad", lambda _: {}),
    torch.enable_grad: ("torch.enable_grad", lambda _: {}),
    torch.set_grad_enabled: ("torch.set_grad_enabled", lambda context: {"mode": context.mode}),
    torch.inference_mode: ("torch.inference_mode", lambda context: {"mode": context.mode}),
    autocast: ("torch.autocast", _autocast_arguments),
    torch.autograd.profiler.record_function: (
        "torch.autograd.profiler.record_function",
        lambda context: {"name": context.name, "args": context.args},
    ),
    warnings.catch_warnings: ("", _warnings_arguments),
}
_FILTERS = ("simplefilter", "filterwarnings")


def _entering(kind: type, original: Callable[..., Any]) -> Callable[..., Any]:
    name, arguments = _CONTEXTS[kind]

    @wraps(original)
    def enter(self: Any) -> Any:
        tracer = current_tracer()
        if tracer is None:
            return original(self)
        tracer.modes = grad_modes()
        target = name or tracer.encoder.callable_name(kind)
        tracer.step("enter", target, (), arguments(self), compute=None)
        tracer.scopes += 1
        return _unheard(tracer, original, self)

    return enter


def _leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def leave(self: Any, *exc: Any) -> Any:
        tracer = current_tracer()
        if tracer is None:
            return original(self, *exc)
        result = _unheard(tracer, original, self, *exc)
        tracer.scopes -= 1
        if not exc or exc[0] is None:
            tracer.step("exit", "", (), compute=None)
        return result

    return leave


def _unheard(tracer: Tracer, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function whose own torch calls are none of the flow's."""
    tracer.listening = False
    try:
        return function(*args)
    finally:
        tracer.listening = True
        tracer.modes = grad_modes()


def _enter_value(self: Flow) -> Any:
    """Enter a context manager that a step has made: `with call(model.locked) as held:`."""
    tracer = tracer_of(self)
    if flow_value(self) is UNKNOWN:
        raise NeedsValueError
    result = tracer.step(
        "enter", "", (self,), compute=lambda context: type(context).__enter__(context)
    )
    tracer.modes = grad_modes()
    tracer.scopes += 1
    tracer.attributes.forget()
    return result


def _leave_value(self: Flow, *exc: Any) -> None:
    tracer, context = tracer_of(self), flow_value(self)
    swallowed = _unheard(tracer, type(context).__exit__, context, *exc)
    tracer.scopes -= 1
    tracer.attributes.forget()
    if exc[0] is None:
        tracer.step("exit", "", (), compute=None)
    elif swallowed:
        raise FlowError(swallowing(context)) from exc[1]


Flow.__enter__ = _enter_value  # type: ignore[attr-defined]
Flow.__exit__ = _leave_value  # type: ignore[attr-defined]


@final
class _Forked:
    """`torch.random.fork_rng(...)` in a flow: a block that leaves the random state as it was."""

    def __init__(self, tracer: Tracer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._tracer = tracer
        self._args, self._kwargs = args, kwargs
        values = [map_leaves(arg, unwrap) for arg in args]
        named = {key: map_leaves(arg, unwrap) for key, arg in kwargs.items()}
        self._context = _FORK_RNG(*values, **named)

    def __enter__(self) -> Any:
        tracer = self._tracer
        tracer.step("enter", "torch.random.fork_rng", self._args, self._kwargs, compute=None)
        tracer.scopes += 1
        return _unheard(tracer, self._context.__enter__)

    def __exit__(self, *exc: object) -> Any:
        tracer = self._tracer
        result = _unheard(tracer, self._context.__exit__, *exc)
        tracer.scopes -= 1
        if exc[0] is None:
            tracer.step("exit", "", (), compute=None)
        return result


@wraps(torch.random.fork_rng)
def _fork_rng(*args: Any, **kwargs: Any) -> Any:
    tracer = current_tracer()
    return _FORK_RNG(*args, **kwargs) if tracer is None else _Forked(tracer, args, kwargs)


def _filtering(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def change(*args: Any, **kwargs: Any) -> Any:
        tracer = current_tracer()
        if tracer is None:
            return original(*args, **kwargs)
        target = tracer.encoder.callable_name(original)
        tracer.step("function", target, args, kwargs, compute=original)
        return None

    return change


def _autocast_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Make the context of what is known only from an input: `torch.autocast(x.device.type)`."""
    bound = _AUTOCAST_SIGNATURE.bind(self, *args, **kwargs)
    given: dict[str, Any] = {
        name: value for name, value in bound.arguments.items() if isinstance(value, Flow)
    }
    values = {name: flow_value(value) for name, value in given.items()}
    if any(value is UNKNOWN for value in values.values()):
        raise NeedsValueError
    bound.arguments.update(values)
    _AUTOCAST_INIT(*bound.args, **bound.kwargs)
    if given:
        # Another device has another default dtype.
        given = {"dtype": bound.arguments.get("dtype"), **given}
        vars(self)["_flodl_given"] = given


_AUTOCAST_INIT = autocast.__init__
_AUTOCAST_SIGNATURE = inspect.signature(_AUTOCAST_INIT)
_FORK_RNG = torch.random.fork_rng
_lock = threading.Lock()
_depth: list[int] = []
_ORIGINALS = {kind: (kind.__enter__, kind.__exit__) for kind in _CONTEXTS}  # type: ignore[attr-defined]
_FILTER_ORIGINALS = {name: vars(warnings)[name] for name in _FILTERS}
_RECORDED = {
    kind: (_entering(kind, enter), _leaving(leave)) for kind, (enter, leave) in _ORIGINALS.items()
}
_FILTERS_RECORDED = {name: _filtering(each) for name, each in _FILTER_ORIGINALS.items()}


@contextmanager
def recorded_scopes() -> Iterator[None]:
    """Turn entering and leaving of known contexts into nodes, in this thread, until the block ends."""
    with _lock:
        _depth.append(threading.get_ident())
        if len(_depth) == 1:
            _replace()
    try:
        yield
    finally:
        with _lock:
            _depth.pop()
            if not _depth:
                _restore()


def _replace() -> None:
    for kind, (enter, leave) in _RECORDED.items():
        _set(kind, enter, leave)
    vars(warnings).update(_FILTERS_RECORDED)
    vars(torch.random)["fork_rng"] = _fork_rng
    _set_init(_autocast_init)


def _restore() -> None:
    for kind, (enter, leave) in _ORIGINALS.items():
        _set(kind, enter, leave)
    vars(warnings).update(_FILTER_ORIGINALS)
    vars(torch.random)["fork_rng"] = _FORK_RNG
    _set_init(_AUTOCAST_INIT)


def _set_init(function: Any) -> None:
    autocast.__init__ = function  # type: ignore[method-assign]


def _set(kind: Any, enter: Any, leave: Any) -> None:
    kind.__enter__, kind.__exit__ = enter, leave
