"""Changes of code: replaced functions, methods and forwards, and globals of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

from torch import nn

from benchmarks.world_mutation.changes import Found, MissingError, on, one_of_each_kind, scaled
from benchmarks.world_mutation.side import Side


def functions(side: Side) -> Found:
    """Return replacements of the functions that a file calls, and other values of its globals."""
    home = side.home
    text = Path(str(home.__file__)).read_text(encoding="utf-8")
    for name, value in list(vars(home).items()):
        if name.startswith("__"):
            continue
        if isinstance(value, FunctionType) and f"{name}(" in text.replace(f"def {name}(", ""):
            yield f"function {name} replaced", _function_replaced(name)
        elif type(value) in (bool, int, float) and name.isupper():
            other = not value if isinstance(value, bool) else value + 1
            yield f"global {name} = {other}", _global_set(name, other)


def methods(side: Side) -> Found:
    """Return replacements of methods, on a class and on an object."""
    for path, module in one_of_each_kind(side.model, side.home.__name__):
        kind = type(module).__name__
        if path:
            yield f"forward of {kind} {path} replaced", on(path, _forward_replaced)
            yield f"forward of class {kind} replaced", _method_replaced(kind, "forward")
        for name, value in vars(type(module)).items():
            if isinstance(value, FunctionType) and name != "forward" and not name.startswith("__"):
                yield f"method {kind}.{name} replaced", _method_replaced(kind, name)


def _wrapped(before: Callable[..., Any]) -> Callable[..., Any]:
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return scaled(before(*args, **kwargs))

    return replaced


def _forward_replaced(module: nn.Module) -> None:
    vars(module)["forward"] = _wrapped(module.forward)


def _global_set(name: str, value: Any) -> Callable[[Side], object]:
    return lambda side: setattr(side.home, name, value)


def _function_replaced(name: str) -> Callable[[Side], object]:
    def apply(side: Side) -> None:
        if name not in vars(side.home):
            raise MissingError(name)
        setattr(side.home, name, _wrapped(vars(side.home)[name]))

    return apply


def _method_replaced(kind: str, name: str) -> Callable[[Side], object]:
    def apply(side: Side) -> None:
        owner = vars(side.home).get(kind)
        if owner is None or name not in dir(owner):
            raise MissingError(f"{kind}.{name}")
        setattr(owner, name, _wrapped(getattr(owner, name)))

    return apply
