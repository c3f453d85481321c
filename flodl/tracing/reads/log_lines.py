"""Log lines of a flow: each is a step, so that every call writes it.

    log.info("batch of %s", x.size(0))   ->   info_(Logger_, "batch of %s", x.size(0))

`Logger` is a class of the whole program. So a logger that a flow has found gets the methods below as its own
attributes while the flow is traced; they hide those of the class.
"""

from __future__ import annotations

import logging
import sys
import threading
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, final

from flodl.tracing.active import current_tracer
from flodl.tracing.callsite import is_user_frame

if TYPE_CHECKING:
    from collections.abc import Callable

_METHODS: Final = (
    "debug", "info", "warning", "warn", "error", "critical", "fatal", "exception", "log",
)  # fmt: skip
_lock = threading.Lock()
_listening: dict[logging.Logger, tuple[int, tuple[str, ...]]] = {}


@final
class LogLines:
    """The loggers that one trace has found."""

    __slots__ = ("_loggers",)

    def __init__(self) -> None:
        self._loggers: list[logging.Logger] = []

    def listen(self, value: Any) -> None:
        """Let the lines of a logger, or of the one below an adapter, be steps until the trace ends."""
        logger = value.logger if isinstance(value, logging.LoggerAdapter) else value
        if isinstance(logger, logging.Logger) and logger not in self._loggers:
            self._loggers.append(logger)
            _install(logger)

    def remove(self) -> None:
        """Give the loggers their methods back."""
        while self._loggers:
            _remove(self._loggers.pop())


def _install(logger: logging.Logger) -> None:
    """Count a trace that listens; the attributes of a logger are shared by all threads."""
    with _lock:
        count, names = _listening.get(logger, (0, ()))
        if not count:
            # A program that has put a function there itself keeps it.
            names = tuple(name for name in _METHODS if name not in vars(logger))
            vars(logger).update({name: _line(logger, name) for name in names})
        _listening[logger] = count + 1, names


def _remove(logger: logging.Logger) -> None:
    with _lock:
        count, names = _listening.pop(logger)
        if count > 1:
            _listening[logger] = count - 1, names
            return
        for name in names:
            vars(logger).pop(name, None)


# Each trace puts those of the root logger in: they are made once, not once for a trace.
@lru_cache(maxsize=1024)
def _line(logger: logging.Logger, name: str) -> Callable[..., None]:
    original = getattr(type(logger), name)

    @wraps(original)
    def line(*args: Any, **named: Any) -> None:
        tracer = current_tracer()
        if tracer is not None and is_user_frame(sys._getframe(1)):
            target = tracer.encoder.callable_name(original)
            tracer.step("function", target, (logger, *args), named, compute=original)
            return
        # The record names the caller's line, which is one frame further up.
        original(logger, *args, **{**named, "stacklevel": named.get("stacklevel", 1) + 1})

    return line
