"""Hooks on classes: reads and writes of attributes report to the tracer while a flow is traced.

A class gets a `__getattribute__` and a `__setattr__` that pass every call on but those of the flow: an
owner that has a source, read outside of torch's machinery and of this package.  An `__eq__` reports which
objects are compared, since equality may be identity; `in` and `list.index` call it too.  `copy` and `pickle`
read a whole object in C, past `__getattribute__`; the methods that they call report a read of `__dict__`.
Classes are shared by all threads, so installations are counted.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import torch
from torch import nn

from flodl.tracing.active import current_tracer
from flodl.tracing.reads.guard_values import class_attribute
from flodl.tracing.reads.log_lines import LogLines
from flodl.tracing.reads.opaque_objects import is_hookable

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.tracer import Tracer

_OWN_FOLDER: Final = str(Path(__file__).parents[2])
_TORCH_FOLDER: Final = str(Path(torch.__file__).parent)
_MACHINERY: Final = frozenset(
    vars(nn.Module)[name].__code__
    for name in ("_wrapped_call_impl", "_call_impl")
    if isinstance(vars(nn.Module)[name], FunctionType)
)
# `self.training` ties a plan by itself.
_UNGUARDED: Final = frozenset({"training"})
_WHOLE_READS: Final = ("__getstate__", "__reduce_ex__", "__copy__", "__deepcopy__")

_lock = threading.RLock()
_Methods: TypeAlias = dict[str, Any]
_installed: dict[type, tuple[int, _Methods]] = {}


@final
class Hooks:
    """The classes that one trace has hooked.

    Attributes:
        lines: the loggers whose lines are steps of the trace.
        mode_is_read: whether the flow may have read the mode (`training`) of its own module.
    """

    def __init__(self) -> None:
        self._kinds: list[type] = []
        self.lines = LogLines()
        self.mode_is_read = False

    def add(self, kind: type) -> None:
        """Let reads and writes of attributes of a class's objects report to the tracer."""
        if kind not in self._kinds and is_hookable(kind):
            self._kinds.append(kind)
            install(kind)

    def add_own(self, kind: type) -> None:
        """Add the class of the module itself; of one without hooks, no read of the mode is seen."""
        self.add(kind)
        self.mode_is_read |= kind not in self._kinds

    def remove(self) -> None:
        """Take the hooks off again."""
        while self._kinds:
            remove(self._kinds.pop())
        self.lines.remove()


def install(kind: type) -> None:
    """Hook a class once more."""
    with _lock:
        count, before = _installed.get(kind, (0, {}))
        if not count:
            plain: Any = kind  # its methods, not bound to anything
            hooks = {
                "__getattribute__": _reader(plain.__getattribute__),
                "__setattr__": _writer(plain.__setattr__),
            }
            for name in _WHOLE_READS:
                method = class_attribute(kind, name)
                if callable(method):
                    hooks[name] = _whole_reader(method, plain.__getattribute__)
            if plain.__eq__ is object.__eq__ or isinstance(plain.__eq__, FunctionType):
                hooks["__eq__"] = _comparer(plain.__eq__)
            before = {name: vars(kind).get(name) for name in hooks}
            for name, hook in hooks.items():
                type.__setattr__(kind, name, hook)
        _installed[kind] = count + 1, before


def remove(kind: type) -> None:
    """Take one hook off a class."""
    with _lock:
        count, before = _installed[kind]
        if count > 1:
            _installed[kind] = count - 1, before
            return
        del _installed[kind]
        for name, method in before.items():
            if method is None:
                type.__delattr__(kind, name)
            else:
                type.__setattr__(kind, name, method)


def _comparer(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        tracer = current_tracer()
        if tracer is not None and not is_ours(sys._getframe(1).f_code.co_filename):
            tracer.sources.compared(self, other)
        return plain(self, other)

    return __eq__


def _reader(plain: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def __getattribute__(self: Any, name: str) -> Any:  # noqa: N807
        tracer = current_tracer()
        if (
            tracer is None
            or (name.startswith("__") and name != "__dict__")
            or not _is_read_by_the_flow(tracer, self, name, sys._getframe(1).f_code)
        ):
            return plain(self, name)
        return tracer.read_attribute(self, name, plain)

    return __getattribute__


def _whole_reader(
    plain: Callable[..., Any], read: Callable[[Any, str], Any]
) -> Callable[..., Any]:
    def whole(self: Any, *args: Any) -> Any:
        tracer = current_tracer()
        code = sys._getframe(1).f_code
        if tracer is not None and _is_read_by_the_flow(tracer, self, "__dict__", code):
            tracer.read_attribute(self, "__dict__", read)
        return plain(self, *args)

    return whole


def _writer(plain: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        tracer = current_tracer()
        if (
            tracer is None
            or self is tracer.module
            or not _is_read_by_the_flow(tracer, self, name, sys._getframe(1).f_code)
        ):
            plain(self, name, value)
            return
        tracer.write_attribute(self, name, value)

    return __setattr__


def is_ours(file: str) -> bool:
    """Return True for a file of this package, and for generated code."""
    return file.startswith((_OWN_FOLDER, "<flodl"))


def _is_read_by_the_flow(tracer: Tracer, owner: Any, name: str, code: CodeType) -> bool:
    if name in _UNGUARDED and owner is tracer.module:
        tracer.sources.hooks.mode_is_read = True
        return False
    if tracer.sources.source_of(owner) is None or code in _MACHINERY:
        return False
    file = code.co_filename
    if is_ours(file):
        return False
    # torch reads the tables of a module through its `__dict__`; a flow's `vars(x)` is a read.
    if name != "__dict__":
        return True
    is_read = not file.startswith(_TORCH_FOLDER)
    tracer.sources.hooks.mode_is_read |= is_read and owner is tracer.module
    return is_read
