"""The public methods that a forward uses, with their arguments: callers use them too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import final

from torch import nn

from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sides.subject import Call, Subject
from flodl_verify.values.recipes import Arguments, Packed, Provenance, pack

MAX_METHODS = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCall:
    """A public method by name, and the arguments it was first called with."""

    name: str
    arguments: Packed


def methods_used(subject: Subject, call: Call, provenance: Provenance) -> tuple[MethodCall, ...]:
    """Call the original once, and return which of its class's public methods that used."""
    found: dict[str, Packed] = {}

    def note(name: str, arguments: Arguments) -> None:
        if name in found or len(found) == MAX_METHODS:
            return
        packed = attempt(lambda: pack(arguments, provenance, keep_live=True))
        if not isinstance(packed, Failure):
            found[name] = packed

    with _watched_methods(subject.model, note):
        attempt(lambda: subject.call(call))
    return tuple(MethodCall(name=name, arguments=packed) for name, packed in found.items())


@contextmanager
def _watched_methods(model: nn.Module, note: Callable[[str, Arguments], None]) -> Iterator[None]:
    """Shadow the public methods of one module by watched ones, on the instance only."""
    methods = {
        name: value
        for name, value in vars(type(model)).items()
        if isinstance(value, FunctionType) and not name.startswith("_") and name != "forward"
    }
    fields = vars(model)
    for name, function in methods.items():
        fields[name] = _watch(model, name, function, note)
    try:
        yield
    finally:
        for name in methods:
            del fields[name]


def _watch(
    model: nn.Module,
    name: str,
    function: FunctionType,
    note: Callable[[str, Arguments], None],
) -> Callable[..., object]:
    @functools.wraps(function)
    def watched(*args: object, **kwargs: object) -> object:
        note(name, (args, kwargs))
        return function(model, *args, **kwargs)

    return watched
