"""Patches while a flow is traced: modules and functions such as `math.sqrt` become nodes for a Flow."""

from __future__ import annotations

import builtins
import importlib
import math
import sys
import threading
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch import nn

from flodl.errors import FlowError
from flodl.tracing.active import current_tracer
from flodl.tracing.decorators import decorators_of, undecorated
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import leaves
from flodl.tracing.reads.process_state import plain_process_state
from flodl.vocabulary.stages import call_module, call_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flodl.tracing.call_inputs import Definition

_lock = threading.Lock()
RECORDINGS: Final[list[int]] = []  # one entry per recording under way, in any thread
# The target of `nn.Module.__call__`. `__call__` itself is a slot of the type: to set it, Python
# looks at every subclass there is, 0.1 ms with torch alone and some ms with transformers.
_call: Callable[..., Any] = nn.Module._call_impl
_MATH = (
    "sqrt",
    "log",
    "log2",
    "log10",
    "exp",
    "pow",
    "ceil",
    "floor",
    "sin",
    "cos",
    "prod",
    "fabs",
)


def _has_flow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    values = (*args, *kwargs.values())
    return any(type(leaf) is Flow for value in values for leaf in leaves(value))


def _intercepted_call(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    tracer = current_tracer()
    if tracer is None or not _has_flow(args, kwargs):
        if tracer is not None and tracer.listening:
            tracer.sources.called(module)
        return _call(module, *args, **kwargs)
    return call_module(tracer, module, args, kwargs)


def _compiled(module: nn.Module) -> Any:
    """Return the result of `module.compile()`; not where it would get a flow instead of a tensor."""
    known = vars(module).get("_compiled_call_impl")
    return known if known is None or current_tracer() is None else partial(_call_compiled, module)


def _call_compiled(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
    if _has_flow(args, kwargs):
        return _intercepted_call(module, *args, **kwargs)
    return vars(module)["_compiled_call_impl"](*args, **kwargs)


def _compile(module: nn.Module, made: Any) -> None:
    vars(module)["_compiled_call_impl"] = made


_COMPILED = property(_compiled, _compile)


def _intercepted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = current_tracer()
        if tracer is None or not _has_flow(args, kwargs):
            return function(*args, **kwargs)
        return tracer.step("function", name, args, kwargs, compute=function)

    return call


# Python functions of torch that hand no call to `__torch_function__`: classes that take a dtype, functions
# that take a number in place of a tensor (torch's parser finds no signature there for a Flow), and those
# that build a nested tensor from its parts.
_FUNCTIONS: Final[tuple[tuple[Any, str, tuple[str, ...]], ...]] = (
    (math, "math", _MATH),
    (torch, "torch", (
        "finfo", "iinfo", "where", "pow", "float_power", "remainder", "xlogy", "isin", "result_type",
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
    )),
    (torch.special, "torch.special", ("xlog1py", "xlogy", "zeta")),
    (torch.nested, "torch.nested", (
        "nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged", "masked_select", "narrow",
    )),
)  # fmt: skip
_ORIGINALS: Final = [
    (module, {name: vars(module)[name] for name in names}) for module, _, names in _FUNCTIONS
]
_INTERCEPTED: Final = [
    (module, {name: _intercepted(f"{text}.{name}", vars(module)[name]) for name in names})
    for module, text, names in _FUNCTIONS
]


_Tables: TypeAlias = "list[tuple[Any, dict[str, Callable[..., Any]]]]"
_plain_import: Final = builtins.__import__
_plain_import_module: Final = importlib.import_module


def _records_alone() -> bool:
    """Return True if this thread records and no other does: another one needs the replacements now."""
    return set(RECORDINGS) == {threading.get_ident()}


def _import(
    name: str,
    names: Any = None,
    local_names: Any = None,
    fromlist: tuple[str, ...] | None = (),
    level: int = 0,
) -> Any:
    """Import a module as outside of any recording.

    Code that loads keeps what it takes from torch and math (`from math import ceil`): it would keep the
    replacements. A first call of `torch.utils.checkpoint` loads all of Dynamo, say.
    """
    is_loaded = not level and not fromlist and name in sys.modules
    if is_loaded or not _records_alone():
        return _plain_import(name, names, local_names, fromlist, level)
    with _unpatched():
        return _plain_import(name, names, local_names, fromlist, level)


def _import_module(name: str, package: str | None = None) -> Any:
    if not _records_alone():
        return _plain_import_module(name, package)
    with _unpatched():
        return _plain_import_module(name, package)


_IMPORTS: Final[_Tables] = [
    (builtins, {"__import__": _import}),
    (importlib, {"import_module": _import_module}),
]
_PLAIN_IMPORTS: Final[_Tables] = [
    (builtins, {"__import__": _plain_import}),
    (importlib, {"import_module": _plain_import_module}),
]


@contextmanager
def _unpatched() -> Iterator[None]:
    """Put everything back that a recording replaces, until the block ends."""
    tracer = current_tracer()
    with _lock:
        _unpatch()
    try:
        with plain_process_state(), nullcontext() if tracer is None else tracer.paused():
            yield
    finally:
        with _lock:
            if RECORDINGS:
                _patch()


def _patch() -> None:
    _set(_INTERCEPTED)
    _set(_IMPORTS)
    _set_call(_intercepted_call, _COMPILED)


def _unpatch() -> None:
    _set(_ORIGINALS)
    _set(_PLAIN_IMPORTS)
    _set_call(_call, None)


# No forward of a flow was recorded: it is called with values.
WITH_VALUES: Final = object()


def recorded_forward(module: nn.Module, definition: Definition, values: tuple[Any, ...]) -> Any:
    """Record `module.forward(x)` for a flow `x`, which no interception sees; else `WITH_VALUES`.

    The module's own flow, as a class below it reaches it, is described in place.

    Raises:
        FlowError: the decorators of the forward were called with what only describes values.
    """
    tracer = current_tracer()
    if tracer is None or not _has_flow(values, {}):
        return WITH_VALUES
    if decorators_of(definition.function):
        raise FlowError(undecorated(definition.function, "forward"))
    if tracer.module is module:
        return definition.call(module, values)
    args, named = definition.arguments(values)
    return call_stage(tracer, module.forward, tuple(args), named)


@contextmanager
def intercept_calls() -> Iterator[None]:
    """Turn calls of modules and of `math` on flows into nodes, in this thread, until the block ends.

    The attributes are shared by all threads, so the replacements pass every other call on.
    """
    with _lock:
        RECORDINGS.append(threading.get_ident())
        _patch()
    try:
        yield
    finally:
        with _lock:
            RECORDINGS.pop()
            if not RECORDINGS:
                _unpatch()


def _set_call(call: Any, compiled: property | None) -> None:
    nn.Module._call_impl = call  # type: ignore[method-assign]
    nn.Module._compiled_call_impl = compiled  # type: ignore[assignment]


def _set(tables: _Tables) -> None:
    for module, table in tables:
        module.__dict__.update(table)
