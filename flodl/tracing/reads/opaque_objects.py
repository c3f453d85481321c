"""Objects whose contents no hook reports: values, buffers, iterators, other objects of C extensions.

Worked example.  A flow reads four attributes of its module:

    self.period     timedelta(days=2)     guard: same_value(self.period, <timedelta of the trace>)
    self.table      array("f", [2.0])     guard: same_value(self.table, <copy of the array>)
    self.norm       partial(f, scale=2)   guards on its parts: self.norm.func, .args, .keywords
    self.rng        random.Random(0)      step: getattr(self, "rng"), and each use of it is a step

Hooks on classes see reads of attributes only where Python code looks them up.  The C code of
`timedelta` reads its fields directly, and a random generator changes its state unseen.  An immutable
value is told from others by its text, a buffer by a copy, and a wrapper by its parts.  Any other object
of C code may be another one after each use, so that a guard at entry cannot serve.

CPython allocates the state of a C class in each of its objects.  A class whose objects are larger
than those of its base, slots and the like aside, has such state: see `has_hidden_state`.
"""

from __future__ import annotations

import array
import datetime as dt
import decimal
import fractions
import functools
import operator
import pathlib
import re
import sys
import threading
import uuid
import weakref
from contextvars import ContextVar
from enum import Enum, auto
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    UnionType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakKeyDictionary

import torch
from torch import nn

from flodl.tracing.reads.guard_values import CODE, MAPPINGS, SEQUENCES, SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@final
class Rule(Enum):
    """The way in which a flow may rely on an object that it reads."""

    HOOK = auto()  # its identity is guarded, and hooks on its class report reads
    CONTENTS = auto()  # a container or an array: `Sources` guards the items
    VALUE = auto()  # immutable: type and text tell it from others
    BUFFER = auto()  # type, format and bytes tell it from others
    PARTS = auto()  # it wraps objects that are guarded
    IDENTITY = auto()  # it has no state that a flow could read
    LIVE = auto()  # its state changes unseen: it is read by a step


# Immutable classes, and the facts that tell two of their values apart; subclasses count too.
_FACTS: Final[dict[type, Callable[[Any], object]]] = {
    dt.datetime: dt.datetime.__repr__,
    dt.date: dt.date.__repr__,
    dt.time: dt.time.__repr__,
    dt.timedelta: dt.timedelta.__repr__,
    dt.timezone: dt.timezone.__repr__,
    decimal.Decimal: decimal.Decimal.as_tuple,
    fractions.Fraction: fractions.Fraction.as_integer_ratio,
    pathlib.PurePath: pathlib.PurePath.__str__,
    re.Pattern: lambda pattern: (pattern.pattern, pattern.flags),
    range: range.__repr__,
    uuid.UUID: lambda value: (value.int, value.is_safe),
    torch.finfo: repr,
    torch.iinfo: repr,
    str: str.__str__,
    bytes: bytes.__repr__,
    int: int.__repr__,
    float: float.__repr__,
    complex: complex.__repr__,
}
_VALUES: Final = tuple(_FACTS)
_BUFFERS: Final = (bytearray, array.array, memoryview)
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_WRAPPERS: Final = (
    functools.partial, slice, weakref.ref, *weakref.ProxyTypes, MappingProxyType, ContextVar,
    threading.local, *_VIEWS,
)  # fmt: skip
_BOUND: Final = (BuiltinFunctionType, MethodWrapperType)
_STATELESS: Final = (
    *_LOCKS, operator.itemgetter, operator.attrgetter, operator.methodcaller, staticmethod, classmethod,
    property, ClassMethodDescriptorType, MethodDescriptorType, CodeType, GenericAlias,
    GetSetDescriptorType, MemberDescriptorType, UnionType,
    WrapperDescriptorType,
)  # fmt: skip
_HOOKED: Final = (*CODE, nn.Module, torch.Tensor)
_CONTAINERS: Final = (*SEQUENCES, *MAPPINGS, *SETS, ModuleType)
# Packages whose objects serve a flow without being read by it: loggers, annotations, our own.
_SERVING: Final = frozenset({"logging", "typing", "flodl"})
_HEAP_TYPE: Final = 1 << 9
_IMMUTABLE: Final = 1 << 8
_POINTER: Final = tuple.__itemsize__
_rules: WeakKeyDictionary[type, Rule] = WeakKeyDictionary()


def rule_of(value: Any) -> Rule:
    """Return the rule by which a flow may rely on an object that it reads.

    Args:
        value: neither a flow nor a constant.
    """
    if is_bound(value):
        return Rule.LIVE if rule_of(value.__self__) is Rule.LIVE else Rule.PARTS
    kind = type(value)
    found = _rules.get(kind)
    if found is None:
        found = _rules[kind] = _rule_of_class(kind)
    return found


def is_bound(value: Any) -> bool:
    """Return True for a method of C code that is bound to an object, such as `table.get`."""
    if not issubclass(type(value), _BOUND):
        return False
    return value.__self__ is not None and not isinstance(value.__self__, ModuleType)


def _rule_of_class(kind: type) -> Rule:
    numpy = sys.modules.get("numpy")
    if issubclass(kind, _HOOKED):
        return Rule.HOOK
    if issubclass(kind, _CONTAINERS) or (
        numpy and issubclass(kind, (numpy.ndarray, numpy.generic))
    ):
        return Rule.CONTENTS
    if issubclass(kind, _VALUES) or (numpy and issubclass(kind, numpy.dtype)):
        return Rule.VALUE
    if issubclass(kind, _BUFFERS):
        return Rule.BUFFER
    if issubclass(kind, _WRAPPERS):
        return Rule.PARTS
    if issubclass(kind, _STATELESS) or (numpy and issubclass(kind, numpy.ufunc)):
        return Rule.IDENTITY
    if kind.__module__.partition(".")[0] in _SERVING:
        return Rule.IDENTITY
    hidden = [each for each in kind.__mro__ if has_hidden_state(each)]
    if hidden and not issubclass(kind, BaseException):
        # Scripted functions of torch have the state of a base of pybind11.
        is_torch = any(each.__module__.partition(".")[0] == "torch" for each in kind.__mro__)
        return Rule.IDENTITY if is_torch else Rule.LIVE
    if is_hookable(kind):
        return Rule.HOOK
    return Rule.PARTS if kind.__dictoffset__ else Rule.IDENTITY


def is_live(value: Any) -> bool:
    """Return True if a flow that reads an attribute with this value must read it in every call."""
    return isinstance(value, _LOCKS) or rule_of(value) is Rule.LIVE


def has_hidden_state(kind: type) -> bool:
    """Return True if a class keeps state in its objects besides attributes and slots.

    CPython calls such a class a solid base: `best_base` in Objects/typeobject.c.

    Example:
        >>> has_hidden_state(type(iter([]))), has_hidden_state(type("Empty", (), {}))
        (True, False)
    """
    base = kind.__base__
    if base is None:
        return False
    extra = kind.__basicsize__ - base.__basicsize__
    known = bool(kind.__dictoffset__) - bool(base.__dictoffset__)
    known += bool(kind.__weakrefoffset__) - bool(base.__weakrefoffset__)
    if "__slots__" in vars(kind):
        known += sum(isinstance(each, MemberDescriptorType) for each in vars(kind).values())
    return extra > known * _POINTER


def is_hookable(kind: type) -> bool:
    """Return True if a class can get hooks that report the reads of attributes of its objects."""
    if not kind.__flags__ & _HEAP_TYPE or kind.__flags__ & _IMMUTABLE:
        return False
    if issubclass(kind, nn.Module):
        return True
    of_python = kind.__module__ in ("fractions", "uuid") or kind.__module__.startswith("pathlib")
    return not (of_python or kind.__module__.partition(".")[0] in _SERVING)


def facts_of(value: Any) -> tuple[type, object]:
    """Return a key of a value, or of the present contents of a buffer, distinct for every class."""
    kind = type(value)
    if issubclass(kind, _BUFFERS):
        view = memoryview(value)
        return kind, (view.format, view.shape, view.tobytes())
    tell = next((_FACTS[each] for each in kind.__mro__ if each in _FACTS), repr)
    return kind, tell(value)


def has_facts(value: Any, facts: tuple[type, object]) -> bool:
    """Return True if a value or buffer has the facts that were noted earlier."""
    return facts_of(value) == facts


def same_value(value: Any, kept: Any) -> bool:
    """Return True if an immutable value cannot be told from one of an earlier call."""
    return value is kept or facts_of(value) == facts_of(kept)


def opaque_check(value: Any, place: str, key: Callable[..., str]) -> str:
    """Return the guard on a value, a buffer, or an object without state.

    Args:
        value: the object.
        place: Python text that finds it in a later call.
        key: puts an object into the table of constants and returns its name there.
    """
    name = type(value).__name__
    match rule_of(value):
        case Rule.VALUE:
            return f"{key(same_value, 'same_value')}({place}, {key(value, name)})"
        case Rule.BUFFER:
            return f"{key(has_facts, 'has_facts')}({place}, {key(facts_of(value), name)})"
        case _:
            return f"{place} is {key(value, name, portable=False)}"


# The text of a guard -> the text that a user has written.
_SPELLINGS: Final = (
    (re.compile(r"^globals_\d*\['(\w+)'\]"), r"\1"),
    (re.compile(r"^cell_(\w+?)_\d*\.cell_contents"), r"\1"),
    (re.compile(r"^(?!self\.)\w+_\d*\.(\w+)"), r"\1"),
    (re.compile(r"vars\(([^()]+)\)\['(\w+)'\]"), r"\1.\2"),
)


def unseen(value: Any, place: str, site: str) -> str:
    """Return the message for an object that only a step may read, where no step can read it."""
    for pattern, spelling in _SPELLINGS:
        place = pattern.sub(spelling, place)
    return (
        f"{site}: the flow reads `{place}`, a {type(value).__name__}, whose state may change unseen between "
        "two calls; make it an attribute of the module, which each call reads, or use it in a function "
        "that is a step: call(function)"
    )


def parts_of(value: Any) -> Iterator[tuple[Any, str]]:
    """Yield the objects that a wrapper consists of, and Python text that finds each; `{}` is the wrapper."""
    kind = type(value)
    if issubclass(kind, functools.partial):
        names: tuple[str, ...] = ("func", "args", "keywords")
        yield from ((getattr(value, name), f"{{}}.{name}") for name in names)
    elif issubclass(kind, slice):
        names = ("start", "stop", "step")
        yield from ((getattr(value, name), f"{{}}.{name}") for name in names)
    elif issubclass(kind, _BOUND):
        yield value.__name__, "{}.__name__"
        yield value.__self__, "{}.__self__"
    elif issubclass(kind, weakref.ref):
        yield value(), "{}()"
    elif issubclass(kind, weakref.ProxyTypes):
        yield value.__repr__.__self__, "{}.__repr__.__self__"
    elif issubclass(kind, _VIEWS):
        yield tuple(value), "(*{},)"
    elif issubclass(kind, MappingProxyType):
        yield dict(value), "dict({})"
    elif issubclass(kind, ContextVar):
        yield value.get(None), "{}.get(None)"
    else:
        yield vars(value), "vars({})"
