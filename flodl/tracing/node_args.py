"""Python values as arguments of a description: references, attribute paths, literals, constants."""

from __future__ import annotations

import math
import weakref
from functools import partial
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Literal, final

import torch
from torch import nn

from flodl.errors import FlowError
from flodl.ir.graph import (
    Arg,
    Attr,
    Build,
    Items,
    Literally,
    Named,
    Pairs,
    Ref,
    Slice,
    Submodule,
)
from flodl.tracing.containers import DICTS, LISTS, TUPLES, written_flow
from flodl.tracing.method_call import Method
from flodl.tracing.naming import importable_name, plain_name
from flodl.tracing.object_pytrees import shell_of
from flodl.tracing.proxy import Flow
from flodl.tracing.pytrees import is_named_tuple
from flodl.tracing.reads.held_values import all_held_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.tracing.tracer import Tracer

_LITERALS = (type(None), bool, int, str, bytes, complex, type(Ellipsis))


@final
class Encoder:
    """Encodes the values of one recording.

    Attributes:
        constants: objects that no literal can express, by the name that generated code uses.
        in_nodes: the names of those that nodes use; the others are there for guards.
        portable: whether every constant is safe to share between copies of the module.
    """

    def __init__(self, tracer: Tracer) -> None:
        # Not a strong reference: the tracer owns us, and a cycle would keep activations alive.
        self._tracer_of = weakref.ref(tracer)
        self.constants: dict[str, object] = {}
        self.in_nodes: set[str] = set()
        self.portable = True
        self._paths: dict[int, str] | None = None
        self._tensor_paths: dict[int, tuple[torch.Tensor, str, str]] = {}
        self._searched_at = -1

    @property
    def _tracer(self) -> Tracer:
        tracer = self._tracer_of()
        assert tracer is not None
        return tracer

    def encode(self, value: Any) -> Arg:
        """Return the description of a value."""
        kind = type(value)
        if kind is Flow:
            return self._reference(value)
        written = written_flow(value)
        if written is not None:
            return self._reference(written)
        if kind is Method:
            message = "a method of a Flow was used as a value; call it, or pass the Flow itself"
            raise FlowError(message)
        if kind in _LITERALS:
            return Literally(value)
        if kind is float:
            return Literally(value) if math.isfinite(value) else self.constant(value, "number")
        if kind in TUPLES or kind is torch.Size:
            name: Literal["tuple", "size"] = "size" if kind is torch.Size else "tuple"
            return Items(name, tuple(self.encode(item) for item in value))
        if kind in LISTS:
            return Items("list", tuple(self.encode(item) for item in value))
        if kind in DICTS:
            keys = tuple(self.encode(key) for key in value)
            return Pairs(keys, tuple(self.encode(item) for item in value.values()))
        if kind is slice:
            return Slice(*(self.encode(part) for part in (value.start, value.stop, value.step)))
        return self._object(value)

    def _reference(self, flow: Flow) -> Arg:
        owner = object.__getattribute__(flow, "_tracer")
        if owner is not self._tracer:
            message = (
                "a Flow was used outside the flow that made it; return values from `flow` and pass them "
                "as arguments instead of keeping them on an object"
            )
            raise FlowError(message)
        return Ref(object.__getattribute__(flow, "_node"))

    def _object(self, value: Any) -> Arg:
        if isinstance(value, nn.Module):
            path = self.module_path(value)
            return (
                self.constant(value, plain_name(value), portable=False)
                if path is None
                else Submodule(path)
            )
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.dtype):
            return Named(str(value))
        if is_named_tuple(value) and any(map(_holds_flow, value)):
            named = ((name, self.encode(_field(value, name))) for name in value._fields)
            return Build(self.callable_name(type(value)), tuple(named))
        shell = shell_of(value)
        if shell is not None:
            make, parts = shell
            named = ((name, self.encode(part)) for name, part in parts.items())
            return Build(self.callable_name(make), tuple(named))
        if callable(value):
            return Named(self.callable_name(value))
        return self.constant(value, plain_name(value), portable=isinstance(value, torch.device))

    def _tensor(self, value: torch.Tensor) -> Arg:
        path = self.tensor_path(value)
        return Attr(path) if path is not None else self.constant(value, "tensor", portable=False)

    def callable_name(self, function: Any) -> str:
        """Return the name by which generated code calls a function or class."""
        name = importable_name(function)
        if name:
            return name
        owner = function.__self__ if isinstance(function, MethodType) else None
        path = self.module_path(owner) if isinstance(owner, nn.Module) else None
        method = _method_name(owner, function) if path is not None else ""
        if path is not None and method:
            steps = "".join(f'._modules["{part}"]' for part in path.split(".") if part)
            return f"self{steps}.{method}"
        # A closure may hold this very module; a copy must not call it.
        is_bound = isinstance(function, partial) or (
            isinstance(function, FunctionType) and function.__closure__ is not None
        )
        named = self.constant(
            function, plain_name(function), portable=owner is None and not is_bound
        )
        return named.key

    def constant(
        self, value: object, wanted: str, *, portable: bool = True, guarded: bool = True
    ) -> Named:
        """Put an object into the constant table and return its name there.

        Args:
            value: the object.
            wanted: the name to begin with.
            portable: whether a copy of the module may use the same object.
            guarded: whether the plan holds only while the object is where the flow has read it.
        """
        for key, known in self.constants.items():
            if known is value:
                if guarded and key not in self.in_nodes:
                    self._use(value, key, portable=portable)
                return Named(key)
        key, count = f"{wanted}_", 1
        while key in self.constants:
            count += 1
            key = f"{wanted}_{count}"
        self.constants[key] = value
        if guarded:
            self._use(value, key, portable=portable)
        return Named(key)

    def _use(self, value: object, key: str, *, portable: bool) -> None:
        self.in_nodes.add(key)
        self.portable = self.portable and portable
        sources = self._tracer.sources
        sources.bound(value, key)
        if sources.source_of(value) is not None:
            return  # a step reads what it holds in every call
        with self._tracer.paused():
            for part in all_held_by(value, lambda part: sources.source_of(part) is not None):
                if part is self._tracer.module:
                    self.portable = False
                else:
                    self.constant(part, type(part).__name__, portable=False)

    def module_path(self, module: nn.Module) -> str | None:
        """Return the dotted path of a module below the owner, `None` if it is not there."""
        owner = self._tracer.module
        if module is owner:
            return ""
        path = next((n for n, child in owner._modules.items() if child is module), None)
        if path is None:  # `named_children` drops repeats
            if self._paths is None:
                self._paths = {}
                with self._tracer.paused():
                    for inner, each in owner.named_modules(remove_duplicate=False):
                        self._paths.setdefault(id(each), inner)
            path = self._paths.get(id(module))
        if path is not None:
            self._tracer.sources.found_at(module, _expression(path))
        return path

    def tensor_path(self, tensor: torch.Tensor) -> str | None:
        """Return the attribute path of a parameter, buffer or tensor attribute, `None` if it has none."""
        if self._find_tensor(tensor) is None and self._searched_at < len(self._tracer.nodes):
            # A step may have set it since: weight norm makes its weight in a hook.
            self._searched_at = len(self._tracer.nodes)
            self._tensor_paths.clear()
            with self._tracer.paused():
                self._find_tensors(self._tensor_paths)
        found = self._find_tensor(tensor)
        if found is None:
            return None
        path, expression = found
        self._tracer.sources.found_at(tensor, expression)
        return path

    def _find_tensor(self, tensor: torch.Tensor) -> tuple[str, str] | None:
        """Return where a tensor was found, unless something else is there by now."""
        known, path, expression = self._tensor_paths.get(id(tensor), (None, "", ""))
        if known is not tensor:
            return None
        owner, _, name = path.rpartition(".")
        with self._tracer.paused():
            holder: nn.Module = self._tracer.module
            for part in owner.split(".") if owner else ():
                following = holder._modules.get(part)
                if following is None:
                    return None
                holder = following
        tables = (holder._parameters, holder._buffers, vars(holder))
        here = any(table.get(name) is tensor for table in tables)
        return (path, expression) if here else None

    def _find_tensors(self, found: dict[int, tuple[torch.Tensor, str, str]]) -> None:
        for path, module in self._tracer.module.named_modules(remove_duplicate=False):
            prefix, owner = f"{path}." if path else "", _expression(path)
            tables = {"_parameters": module._parameters, "_buffers": module._buffers}
            for table, values in tables.items():
                for name, value in values.items():
                    if value is not None:
                        place = f"{owner}.{table}[{name!r}]"
                        found.setdefault(id(value), (value, prefix + name, place))
            for name, value in vars(module).items():
                if isinstance(value, torch.Tensor):
                    found.setdefault(id(value), (value, prefix + name, f"{owner}.{name}"))


def _method_name(owner: Any, method: Any) -> str:
    """Return the attribute by which an object has a method, nothing if none leads to it.

    A method that has been replaced may be called otherwise than its attribute.
    """
    name: str = method.__name__
    if getattr_static(type(owner), name, None) is method.__func__:
        return name
    tables: list[Mapping[str, Any]] = [vars(owner), *map(vars, type(owner).__mro__)]
    for table in tables:
        for key, value in table.items():
            if value is method.__func__ or (type(value) is MethodType and value == method):
                return key
    return ""


def _expression(path: str) -> str:
    """Return the expression of the module at a path, as `Sources` writes it."""
    return "self" + "".join(f"._modules[{part!r}]" for part in path.split(".") if part)


def _field(value: Any, name: str) -> Any:
    return getattr(value, name)


def _holds_flow(value: Any) -> bool:
    kind = type(value)
    if kind in (*TUPLES, *LISTS):
        return any(_holds_flow(item) for item in value)
    if kind in DICTS:
        return any(_holds_flow(item) for item in (*value, *value.values()))
    return kind is Flow
