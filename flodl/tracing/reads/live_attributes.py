"""Attributes that a flow itself changes: read live, at their place in the order, not once and for all."""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import TYPE_CHECKING, Any, final

import torch
from torch import nn

from flodl.errors import FlowError
from flodl.tracing.callsite import call_site
from flodl.tracing.containers import DICTS, LISTS
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.ir.graph import Site
    from flodl.tracing.tracer import Tracer

_NUMBERS = (int, float)
_PLAIN = (bool, str, type(None))
# Types that may be stored as they are; anything else would be one object for all calls.
_SHAREABLE = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device,
              torch.Tensor, nn.Module, type, FunctionType)  # fmt: skip


@final
class _Missing:
    """The answer to a read of an attribute that is not there."""


MISSING = _Missing()


@final
class LiveAttributes:
    """The attributes of one recording that are read live.

    Attributes:
        names: their names.
        checks: the entry guards on them.
        entry: how each of them was first read: as a node of some kind, or as a plain value.
    """

    def __init__(self, tracer: Tracer, names: frozenset[str], replayed: Mapping[str, Any]) -> None:
        self._tracer_of = weakref.ref(tracer)  # it owns us: a cycle would keep weights alive
        self.names = names
        self.checks: list[str] = []
        self.entry: dict[str, Any] = dict(replayed)
        self._written: dict[str, Any] = {}
        self._stored: list[tuple[str, Any, tuple[int, ...], Site]] = []

    @property
    def _tracer(self) -> Tracer:
        tracer = self._tracer_of()
        assert tracer is not None
        return tracer

    def release(self) -> None:
        """Let go of every flow and value."""
        self.entry.clear()
        self._written.clear()
        self._stored.clear()

    def read(self, name: str, value: Any) -> Any:
        """Return the flow's value for an attribute whose value is now `value`.

        Raises:
            AttributeError: there is no such attribute.
        """
        if name in self._written:
            return self._written[name]
        if name not in self.entry:
            self.entry[name] = self._kind(name, value)
        how, known, check = self.entry[name]
        if check and check not in self.checks:
            self.checks.append(check)
        module = self._tracer.module
        if how == "attribute":
            return self._tracer.step(
                "attribute", name, (module,), compute=lambda owner: getattr(owner, name)
            )
        if how == "inside":
            # The content may change during the call: nothing about it is known before.
            return self._tracer.step("function", "getattr", (module, name), compute=getattr)
        if how == "missing":
            message = f"{type(module).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message)
        return known

    def _kind(self, name: str, value: Any) -> tuple[str, Any, str]:
        """Return how an attribute is read, its value if that is plain, and the check it needs."""
        kind = type(value)
        if value is MISSING:
            return "missing", None, f"not hasattr(self, {name!r})"
        if kind in _PLAIN:
            sign = "==" if kind is str else "is"
            return "plain", value, f"self.{name} {sign} {value!r}"
        if isinstance(value, torch.Tensor):
            return "attribute", None, f"isinstance(self.{name}, torch.Tensor)"
        if kind in _NUMBERS:
            return "attribute", None, f"type(self.{name}) is {kind.__name__}"
        if isinstance(value, nn.Module) or callable(value):
            return "plain", value, ""
        builtin = kind in (list, tuple, dict)
        key = kind.__name__ if builtin else self._tracer.encoder.callable_name(kind)
        return "inside", None, f"type(self.{name}) is {key}"

    def write(self, name: str, value: Any) -> None:
        """Record that the flow sets an attribute.

        Raises:
            FlowError: the value is an object that every call would share.
        """
        for leaf in leaves(value):
            if type(leaf) is Flow or isinstance(leaf, _SHAREABLE) or callable(leaf):
                continue
            message = (
                f"{call_site()}: the flow sets `self.{name}` to a {type(leaf).__name__}, which would be "
                "the same object in every call; make it in a function: call(function)"
            )
            raise FlowError(message)
        self._tracer.step(
            "setattr", name, (self._tracer.module, value),
            compute=lambda owner, new: setattr(owner, name, new),
        )  # fmt: skip
        if type(value) in (*LISTS, *DICTS):
            # A list that a call stores belongs to that call: it is read live, and changed there.
            self._written.pop(name, None)
            self.entry[name] = ("inside", None, "")
            self._stored.append((name, value, _members(value), call_site()))
        else:
            self._written[name] = value

    def touched(self, function: Any, args: tuple[Any, ...]) -> None:
        """Note that a step outside the flow may have set attributes: all are read again."""
        module = self._tracer.module
        bound = getattr(function, "__self__", None) is module
        if not self.names or not (bound or any(each is module for each in args)):
            return
        self.forget()

    def forget(self) -> None:
        """From now on, read again every attribute that the flow changes."""
        self._written.clear()
        for name in self.names:
            if name in self.entry:
                self.entry[name] = ("inside", None, "")

    def settle(self) -> None:
        """Check that no container changed under another name after the flow had stored it.

        Raises:
            FlowError: one did; the steps would store it as it was.
        """
        for name, value, before, site in self._stored:
            if _members(value) != before:
                message = (
                    f"{site}: the {type(value).__name__} that is stored as `self.{name}` is changed "
                    f"afterwards under another name; store it when it is complete, or change `self.{name}`"
                )
                raise FlowError(message)


def _members(value: Any) -> tuple[int, ...]:
    members = [*value, *value.values()] if type(value) in DICTS else value
    return tuple(id(each) for each in members)
