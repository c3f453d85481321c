"""State of the process that a flow reads: torch's modes, the environment, clocks and random numbers.

Worked example.

    def flow(self, x):
        if torch.get_default_dtype() is torch.float32:    # a guard, evaluated in every call
            x = x * float(os.environ["SCALE"])             # a guard on that variable
        return x if random.random() < 0.5 else x + 1       # a step: every call draws again

While a flow is traced, the functions in the tables below are replaced by ones that report to the tracer.
A mode that a block of the flow itself has set (`with torch.no_grad():`) is read by a step instead.
"""

from __future__ import annotations

import builtins
import os
import random
import sys
import threading
import time
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import torch

from flodl.tracing.active import current_tracer
from flodl.tracing.callsite import is_user_frame
from flodl.tracing.proxy import Flow, next_item
from flodl.tracing.pytrees import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Functions whose answer a call may rely on only while it is the same: module, its text, names.
_GUARDED: Final[tuple[tuple[Any, str, tuple[str, ...]], ...]] = (
    (torch, "torch", (
        "is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled",
        "is_autocast_cache_enabled", "get_autocast_dtype", "get_autocast_gpu_dtype",
        "get_autocast_cpu_dtype", "get_default_dtype", "get_num_threads", "is_anomaly_enabled",
        "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled",
        "get_float32_matmul_precision", "get_deterministic_debug_mode", "is_warn_always_enabled",
        "get_num_interop_threads", "initial_seed",
    )),
    (torch.cuda, "torch.cuda", ("is_available", "device_count", "current_device")),
    (torch.backends.cuda, "torch.backends.cuda", (
        "flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled", "cudnn_sdp_enabled",
        "fp16_bf16_reduction_math_sdp_allowed",
    )),
    (torch.backends.mha, "torch.backends.mha", ("get_fastpath_enabled",)),
    (torch.jit, "torch.jit", ("is_tracing", "is_scripting")),
)  # fmt: skip
# Modes that a block may set: inside of one, the answer belongs to that place.
_SCOPED: Final = frozenset({
    "is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled",
    "is_autocast_cache_enabled", "get_autocast_dtype", "get_autocast_gpu_dtype", "get_autocast_cpu_dtype",
})  # fmt: skip
# Functions whose every call is a step: they draw, tell the time or write.
_STEPS: Final[tuple[tuple[Any, tuple[str, ...]], ...]] = (
    (random, (
        "random", "uniform", "randint", "randrange", "choice", "choices", "sample", "shuffle", "gauss",
        "normalvariate", "betavariate", "expovariate", "triangular", "getrandbits", "seed", "setstate",
        "getstate",
    )),
    (time, (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
        "process_time", "process_time_ns", "sleep",
    )),
    (os, ("urandom", "getpid")),
    (builtins, ("print", "input")),
)  # fmt: skip
# Steps too, where the flow itself calls them: `inspect` and others of the library look for files as well.
_FILES: Final[tuple[tuple[Any, tuple[str, ...]], ...]] = (
    (os, ("getcwd", "listdir")),
    (os.path, ("exists", "isfile", "isdir", "getsize", "getmtime")),
)
_LIBRARY: Final = f"{Path(os.__file__).parent}{os.sep}"
_SITE: Final = f"{os.sep}site-packages{os.sep}"
_OF_NUMPY_RANDOM: Final = (
    "rand", "randn", "randint", "random", "random_sample", "uniform", "normal", "choice", "permutation",
    "shuffle", "beta", "binomial", "poisson", "seed",
)  # fmt: skip

_lock = threading.Lock()
_depth: list[int] = []
_replaced: list[tuple[dict[str, Any], str, Any]] = []
_replaced_environments: list[Any] = []


# Each trace puts them in: they are made once for a function, not once for a trace.
@lru_cache(maxsize=256)
def _guarded(text: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def ask(*args: Any, **named: Any) -> Any:
        tracer = current_tracer()
        if tracer is None or not is_user_frame(sys._getframe(1)):
            return original(*args, **named)
        values = [*args, *named.values()]
        if any(type(leaf) is Flow for value in values for leaf in leaves(value)):
            return tracer.step("function", f"{text}.{name}", args, named, compute=original)
        if tracer.scopes and name in _SCOPED:
            return tracer.step("function", f"{text}.{name}", args, named, compute=original)
        answer = original(*args, **named)
        shown = ", ".join(
            [*map(repr, args), *(f"{key}={value!r}" for key, value in named.items())]
        )
        tracer.sources.found(answer, f"{text}.{name}({shown})")
        return answer

    return ask


@lru_cache(maxsize=256)
def _stepped(original: Callable[..., Any], *, for_library: bool = True) -> Callable[..., Any]:
    @wraps(original)
    def step(*args: Any, **named: Any) -> Any:
        tracer = current_tracer()
        frame = sys._getframe(1)
        if tracer is None or not is_user_frame(frame):
            return original(*args, **named)
        if not for_library and _is_library(frame.f_code.co_filename):
            return original(*args, **named)
        target = tracer.encoder.callable_name(original)
        return tracer.step("function", target, args, named, compute=original)

    return step


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARY) and _SITE not in file


_ENVIRON: Final = type(os.environ)


@final
class _ReadEnvironment(_ENVIRON):  # type: ignore[misc,valid-type]
    """The class of `os.environ` while a flow is traced.

    A patch of `__getitem__` on the class itself would be lost: CPython 3.13 has 1,000 versions for a class,
    and after so many changes calls the method that it had cached before (`MAX_VERSIONS_PER_CLASS`,
    https://github.com/python/cpython/blob/3.13/Objects/typeobject.c).
    """

    def __getitem__(self, key: Any) -> Any:
        tracer = current_tracer()
        # `get`, `in` and `os.getenv` are written in Python and come here.
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_OF_PYTHON):
            frame = frame.f_back
        if tracer is not None and self is os.environ and is_user_frame(frame):
            kept = tracer.encoder.constant(os.environ, "environ", guarded=False).key
            tracer.sources.found(self._known(key), f"{kept}.get({key!r})")
        return super().__getitem__(key)

    def _known(self, key: Any) -> str | None:
        try:
            found: str = super().__getitem__(key)
        except KeyError:
            return None
        return found


_OF_PYTHON: Final = ("<frozen", os.getenv.__code__.co_filename)


def _next(iterator: Any, /, *default: Any) -> Any:
    if type(iterator) is Flow and current_tracer() is not None:
        return next_item(iterator, *default)
    return _PLAIN_NEXT(iterator, *default)


_PLAIN_NEXT: Final = next


def _tables() -> Iterator[tuple[dict[str, Any], str, Any]]:
    for module, text, names in _GUARDED:
        for name in names:
            if name in vars(module):
                yield vars(module), name, _guarded(text, name, vars(module)[name])
    yield vars(builtins), "next", _next  # of an iterator that a step has read
    steps = list(_STEPS)
    if "numpy.random" in sys.modules:  # numpy loads it at its first use
        steps.append((sys.modules["numpy.random"], _OF_NUMPY_RANDOM))
    for module, names in steps:
        for name in names:
            if name in vars(module):
                yield vars(module), name, _stepped(vars(module)[name])
    for module, names in _FILES:
        for name in names:
            yield vars(module), name, _stepped(vars(module)[name], for_library=False)


@contextmanager
def traced_process_state() -> Iterator[None]:
    """Report reads of the process's state to the tracer of this thread until the block ends.

    The functions are shared by all threads, so the replacements pass every other call on.
    """
    with _lock:
        _depth.append(threading.get_ident())
    try:
        with _lock:
            if not _replaced:
                _replace()
        yield
    finally:
        with _lock:
            _depth.pop()
            if not _depth:
                _restore()


@contextmanager
def plain_process_state() -> Iterator[None]:
    """Put the plain functions back for a block: a module that loads there keeps what it takes from others."""
    with _lock:
        _restore()
    try:
        yield
    finally:
        with _lock:
            if _depth and not _replaced:
                _replace()


def _replace() -> None:
    for table, name, made in _tables():
        _replaced.append((table, name, table[name]))
        table[name] = made
    if type(os.environ) is _ENVIRON:
        _replaced_environments.append(os.environ)
        os.environ.__class__ = _ReadEnvironment


def _restore() -> None:
    while _replaced:
        table, name, before = _replaced[-1]
        table[name] = before
        _replaced.pop()
    while _replaced_environments:
        _replaced_environments.pop().__class__ = _ENVIRON
