"""The arguments of a call as inputs of a recording: flows for tensors, or plain Python values."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, final

import torch

from flodl.ir.graph import InputSpec
from flodl.tracing.containers import FlowDict, FlowList, FlowTuple, Origin
from flodl.tracing.pytrees import is_named_tuple
from flodl.tracing.reads.plain_results import compares_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.tracer import Tracer

_PLAIN = (type(None), bool, str, bytes)
# Names that guards and the function that chooses a plan use; `plan_0` and `admits_0` are two of it too.
_TAKEN: Final = frozenset((
    "admitted", "bool", "bytes", "callable", "complex", "dict", "dispatch", "float", "frozenset", "getattr",
    "hasattr", "id", "int", "isinstance", "len", "list", "math", "range", "record", "set", "slice", "sorted",
    "str", "torch", "tuple", "type", "vars",
))  # fmt: skip
_NUMBERED: Final = re.compile(r"(plan|admits)_\d+")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One method that describes a flow.

    Attributes:
        key: unique among all definitions that one object can have.
        function: the method, unbound.
        signature: its signature without `self`.
        static: whether it is called without the object.
    """

    key: str
    title: str
    function: Callable[..., Any]
    signature: inspect.Signature
    static: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters; a `*args` is one tuple, a `**kwargs` one dict."""
        return tuple(self.signature.parameters)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of a plan: those of the parameters, or others where guards need a name."""
        return tuple(_input_name(each, self.parameters) for each in self.parameters)

    def call(self, module: Any, values: tuple[Any, ...]) -> Any:
        """Call the method with one value per parameter."""
        args, named = self.arguments(values)
        owner = () if self.static else (module,)
        return self.function(*owner, *args, **named)

    def arguments(self, values: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
        """Return how the method is called with one value per parameter."""
        args: list[Any] = []
        named: dict[str, Any] = {}
        for each, value in zip(self.signature.parameters.values(), values, strict=True):
            if each.kind is each.VAR_POSITIONAL:
                args += value
            elif each.kind is each.VAR_KEYWORD:
                named.update(value)
            elif each.kind is each.KEYWORD_ONLY:
                named[each.name] = value
            else:
                args.append(value)
        return args, named


def _input_name(name: str, others: tuple[str, ...]) -> str:
    """Return a name for an input that generated guards can use beside their helpers.

    A parameter `type` would hide the function in `type(x) is int`: its input is `type_`.
    """
    while name in _TAKEN or _NUMBERED.fullmatch(name):
        name += "_"
        while name in others:
            name += "_"
    return name


def admit(tracer: Tracer, name: str, value: Any) -> Any:
    """Make an input of one argument and return the flow's value for it."""
    checks: list[str] = []
    handed = _admit(tracer, name, value, checks)
    tracer.inputs.append(InputSpec(name=name, check=" and ".join(checks)))
    return handed


def tied(
    tracer: Tracer, definition: Definition, given: tuple[Any, ...], handed: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Hand one flow for inputs that are one tensor, if the flow compares by `is`: `if query is key`."""
    function = definition.function
    if not isinstance(function, FunctionType) or not compares_identity(function.__code__):
        return handed
    found = list(handed)
    for later, value in enumerate(given):
        for earlier in range(later):
            other = given[earlier]
            if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
                sign = "is" if value is other else "is not"
                found[later] = found[earlier] if value is other else found[later]
                spec = tracer.inputs[later]
                check = f"{spec.check} and {spec.name} {sign} {tracer.inputs[earlier].name}"
                tracer.inputs[later] = replace(spec, check=check)
    return tuple(found)


def _admit(tracer: Tracer, expression: str, value: Any, checks: list[str]) -> Any:
    kind = type(value)
    if isinstance(value, torch.Tensor):
        checks.append(f"isinstance({expression}, torch.Tensor)")
        return tracer.input(expression, value, torch.Tensor)
    if kind in _PLAIN:
        singleton = kind is bool or value is None
        checks.append(f"{expression} {'is' if singleton else '=='} {value!r}")
        return value
    if kind in (list, tuple):
        checks.append(
            f"type({expression}) is {kind.__name__} and len({expression}) == {len(value)}"
        )
        items = (
            _admit(tracer, f"{expression}[{position}]", item, checks)
            for position, item in enumerate(value)
        )
        if kind is tuple:
            return FlowTuple(items)
        handed = FlowList(items)
        handed.origin = Origin(tracer, expression, value)
        return handed
    if kind is dict and all(type(key) in (str, int) for key in value):
        checks.append(f"type({expression}) is dict and list({expression}) == {list(value)!r}")
        table = FlowDict(
            {
                key: _admit(tracer, f"{expression}[{key!r}]", item, checks)
                for key, item in value.items()
            }
        )
        table.origin = Origin(tracer, expression, value)
        return table
    return _admit_object(tracer, expression, value, checks)


def _admit_object(tracer: Tracer, expression: str, value: Any, checks: list[str]) -> Any:
    kind = type(value)
    if isinstance(value, (torch.dtype, torch.device, type)) or callable(value):
        key = tracer.encoder.constant(value, "argument").key
        checks.append(f"{expression} == {key}")
        return value
    if is_named_tuple(value):
        key = tracer.encoder.callable_name(kind)
        checks.append(f"type({expression}) is {key}")
        parts = (
            _admit(tracer, f"{expression}[{n}]", part, checks) for n, part in enumerate(value)
        )
        return kind(*parts)
    if kind in (int, float):
        checks.append(f"type({expression}) is {kind.__name__}")
    else:
        checks.append(f"type({expression}) is {tracer.encoder.callable_name(kind)}")
    return tracer.input(expression, value, kind)


def describe_parameter(tracer: Tracer, name: str, each: inspect.Parameter) -> Any:
    """Make an input for a parameter whose value is not known: its default, else some tensor."""
    if each.kind is each.VAR_POSITIONAL:
        return admit(tracer, name, ())
    if each.kind is each.VAR_KEYWORD:
        return admit(tracer, name, {})
    if each.default is not each.empty:
        return admit(tracer, name, each.default)
    tracer.inputs.append(InputSpec(name=name, check=f"isinstance({name}, torch.Tensor)"))
    from flodl.tracing.flow_value import UNKNOWN

    return tracer.input(name, UNKNOWN, torch.Tensor)
