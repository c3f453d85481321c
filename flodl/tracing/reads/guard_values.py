"""Values that guards compare: constants, containers, arrays, and reads without running user code."""

from __future__ import annotations

import math
import operator
import sys
from collections import OrderedDict, defaultdict, deque
from enum import Enum
from functools import cache
from inspect import getattr_static
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SINGLETONS: Final = (type(None), bool, type(Ellipsis), type(NotImplemented))
TEXTS: Final = (str, bytes)
NUMBERS: Final = (int, float, complex)
TORCH_CONSTANTS: Final = (torch.dtype, torch.layout, torch.memory_format)
SEQUENCES: Final = (list, tuple, deque, torch.Size)
MAPPINGS: Final = (dict, OrderedDict, defaultdict)
SETS: Final = (set, frozenset)
FUNCTIONS: Final = (
    FunctionType,
    BuiltinFunctionType,
    type(torch.relu),
    type(len),
    type(str.join),
    type(cache(len)),
)
CODE: Final = (*FUNCTIONS, MethodType, type)
MISSING: Final = object()


def instance_dict(owner: Any) -> dict[str, Any]:
    """Return the instance dictionary of an object, empty if it has none."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def plain_read(owner: Any, name: str) -> Any:
    """Read an attribute without running code of the user."""
    if owner is MISSING or isinstance(owner, type):
        return MISSING if owner is MISSING else static_read(owner, name)
    tables = [instance_dict(owner)]
    if isinstance(owner, nn.Module):
        tables += [owner._modules, owner._parameters, owner._buffers]
    found = (table[name] for table in tables if name in table)
    return next(found, MISSING)


def class_attribute(kind: type, name: str) -> Any:
    """Return what a class or a base of it has under a name, not bound; None if there is nothing.

    `inspect.getattr_static` looks into the metaclass and for shadowed dictionaries, too: with it, a
    recording took an eighth longer.
    """
    for each in kind.__mro__:
        if name in vars(each):
            return vars(each)[name]
    return None


def is_computed(owner: Any, name: str) -> bool:
    """Return True if reading the attribute runs code: a property, a slot, `__getattr__`."""
    if name in instance_dict(owner):
        return False
    if isinstance(owner, nn.Module) and any(
        name in table for table in (owner._parameters, owner._buffers, owner._modules)
    ):
        return False
    static = getattr_static(type(owner), name, MISSING)
    if static is MISSING:
        return True
    plain = (*FUNCTIONS, classmethod, staticmethod)
    return not isinstance(static, plain) and "__get__" in dir(type(static))


def switch_of(module: ModuleType, names: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """Yield the switch of `torch.backends` that a chain of attributes reads, and the chain; mostly nothing.

    Attributes of installed modules do not change, but these do: `torch.backends.cudnn.benchmark` is a
    property of the class of its module, and `torch.backends.cuda.matmul.allow_tf32` is one of an object.
    """
    here: Any = module
    is_inside = False
    if not module.__name__.startswith("torch.backends") and tuple(names[:1]) != ("backends",):
        return  # a read of another lazy module would load it
    for count, name in enumerate(names, 1):
        is_inside |= isinstance(here, ModuleType) and here.__name__.startswith("torch.backends")
        try:
            here = getattr(here, name)
        except (AttributeError, RuntimeError):  # a switch that this build of torch does not have
            return
        if is_inside and type(here) in (bool, int, str):
            yield here, ".".join(names[:count])
        if isinstance(here, FUNCTIONS):
            return


def static_read(owner: Any, name: str) -> Any:
    """Read an attribute of a module or class without binding it."""
    if isinstance(owner, ModuleType):
        return vars(owner).get(name, MISSING)
    for kind in owner.__mro__:
        if name in vars(kind):
            value = vars(kind)[name]
            value = value.__func__ if isinstance(value, staticmethod) else value
            return MISSING if isinstance(value, (property, classmethod)) else value
    return MISSING


def cell_content(cell: Any) -> Any:
    """Return the content of a cell, `MISSING` for an empty one."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def content_of(function: FunctionType, name: str) -> Any:
    """Return the content of a free variable of a function, None if it has no such variable."""
    names = function.__code__.co_freevars
    if name not in names or function.__closure__ is None:
        return None
    content = cell_content(function.__closure__[names.index(name)])
    return None if content is MISSING else content


def is_constant(value: Any) -> bool:
    """Return True for an immutable value that equality and type tell from others."""
    kind = type(value)
    return (
        kind in (*SINGLETONS, *TEXTS, *NUMBERS, *TORCH_CONSTANTS, torch.device)
        or isinstance(value, Enum)
        or (isinstance(value, (tuple, torch.Size)) and all(map(is_constant, value)))
    )


def constant_check(value: Any, place: str, key: Callable[[object, str], str]) -> str:
    """Return the guard on a value that equality and type tell from others, nothing for any other.

    Args:
        value: the value.
        place: Python text that finds it in a later call.
        key: puts an object into the table of constants and returns its name there.
    """
    kind = type(value)
    if kind in SINGLETONS or kind in TORCH_CONSTANTS:
        return f"{place} is {value!r}"
    if kind in TEXTS:
        return f"{place} == {value!r}"
    if kind in NUMBERS:
        if value == 0 or (kind is float and math.isnan(value)):
            return f"repr({place}) == {repr(value)!r}"  # tells -0.0 and NaN
        finite = kind is int or abs(value) < float("inf")
        shown = repr(value) if finite else key(value, "number")
        return f"(_v := {place}) == {shown} and type(_v) is {kind.__name__}"
    if kind is torch.device:
        return f"{place} == {key(value, 'device')}"
    if isinstance(value, Enum):
        return f"{place} is {key(value, value.name)}"
    if is_array(value):
        return f"{key(same_array, 'same_array')}({place}, {key(value.copy(), 'array')})"
    return ""


def is_array(value: Any) -> bool:
    """Return True for an array or a number of numpy, of a subclass too."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def simple_text(value: Any) -> str:
    """Return the literal of a plain list, tuple or dict whose equality says everything, else nothing.

    1, 1.0 and True are equal, and so are 0.0 and -0.0: containers of numbers are guarded per item.
    """
    kind = type(value)
    if kind not in (list, tuple, dict):
        return ""
    parts = [*value, *value.values()] if kind is dict else value
    if kind is dict and len(value) > 1:
        return ""  # equality says nothing of the order
    return repr(value) if all(type(part) in (type(None), *TEXTS) for part in parts) else ""


def is_same(value: Any, before: Any) -> bool:
    """Return True if a container holds what it held when it was copied."""
    return len(value) == len(before) and all(
        map(operator.is_, kept_items(value), kept_items(before))
    )


def kept_items(value: Any) -> list[Any]:
    """Return the keys and items of a container."""
    return [*dict.keys(value), *dict.values(value)] if isinstance(value, MAPPINGS) else [*value]


def same_items(value: Any, kept: list[Any]) -> bool:
    """Return True if a container has the keys and items that it had when they were kept."""
    now = kept_items(value)
    if len(now) != len(kept):
        return False
    return all(map(operator.is_, now, kept)) or all(
        each is known
        or (is_constant(each) and type(each) is type(known) and repr(each) == repr(known))
        for each, known in zip(now, kept, strict=True)
    )


def same_array(value: Any, kept: Any) -> bool:
    """Return True if an array of numpy has the type, shape and bytes of a copy made earlier."""
    return bool(
        type(value) is type(kept)
        and value.dtype == kept.dtype
        and value.shape == kept.shape
        and value.tobytes() == kept.tobytes()
    )


def attribute_place(owner: Any, text: str, name: str, value: Any) -> str:
    """Return the expression of a plain attribute, the cheapest that later swaps cannot deceive.

    Args:
        owner: the object that has the attribute.
        text: the expression of the owner.
        name: the attribute.
        value: its value.
    """
    if isinstance(owner, nn.Module) and name not in instance_dict(owner):
        # The tables are read ten times faster than through `nn.Module.__getattr__`.
        for table in ("_modules", "_parameters", "_buffers"):
            if instance_dict(owner).get(table, {}).get(name, MISSING) is value:
                return f"{text}.{table}[{name!r}]"
    return f"{text}.{name}"


def item_place(value: Any, text: str, key: Any, kept: Callable[[object, str], str]) -> str:
    """Return the expression of an item; a user's class may make items in `__getitem__`.

    Args:
        value: the container.
        text: the expression of the container.
        key: the key or the position of the item.
        kept: puts an object into the table of constants and returns its name there.
    """
    shown = simple_text([key]) if isinstance(value, MAPPINGS) else f"[{key}]"
    inside = shown[1:-1] if shown else kept(key, "key")
    base = next((each for each in (dict, list, tuple) if isinstance(value, each)), None)
    if base is None or type(value).__getitem__ is base.__getitem__:
        return f"{text}[{inside}]"
    return f"{base.__name__}.__getitem__({text}, {inside})"
