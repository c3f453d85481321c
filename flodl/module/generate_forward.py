"""The methods of a `FlowModule` class that describe flows, and the methods generated from them."""

from __future__ import annotations

import inspect
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from flodl.graph.error_notes import explain
from flodl.graph.planned_module import offered
from flodl.module.traced_call import run_traced
from flodl.nodes.fast_path import is_traced_by_tool, must_run_plainly
from flodl.tracing.active import current_tracer
from flodl.tracing.call_inputs import Definition
from flodl.tracing.callsite import GENERATED
from flodl.tracing.decorators import decorated, decorators_of, only_described, refuse_elsewhere
from flodl.tracing.patching import RECORDINGS, WITH_VALUES, recorded_forward
from flodl.tracing.proxy import Flow
from flodl.tracing.signature_text import signature_text

if TYPE_CHECKING:
    from collections.abc import Callable


def install_definitions(cls: type[nn.Module], base: type[nn.Module]) -> dict[str, Definition]:
    """Generate `forward` from `flow`, prepare every `@subflow` method, and return all definitions.

    Args:
        cls: the new class.
        base: the class that makes flow modules.
    """
    own = dict(cls.__dict__)
    definitions: dict[str, Definition] = {}
    for above in reversed(cls.__mro__[1:]):
        definitions |= above.__dict__.get("_flodl_definitions", {})
    for name, value in own.items():
        static = isinstance(value, staticmethod)
        function = value.__func__ if isinstance(value, staticmethod) else value
        if name == "flow" and isinstance(value, (FunctionType, staticmethod)):
            definition = _define(cls, function, static=static)
            definitions[definition.key] = definition
            if "forward" not in own:
                forward = decorated(_generate_forward(definition), definition)
                _set_class_attribute(cls, "forward", forward)
            if decorators_of(function):
                _set_class_attribute(cls, "flow", only_described(function))
        elif isinstance(value, FunctionType) and "__flodl_subflow__" in vars(value):
            refuse_elsewhere(name, value)
            definition = _define(cls, value)
            definitions[definition.key] = definition
            _set_class_attribute(cls, name, _generate_subflow(definition))
    described = cls.__dict__.get("flow")
    if isinstance(described, FunctionType):
        # A member may be called `flow` too: `self.flow = nn.Linear(4, 4)`.
        flow: Any = offered(described)
        flow.__set_name__(cls, "flow")
        _set_class_attribute(cls, "flow", flow)
    inherited = _forward_of_layer(cls, base)
    if inherited is not None:
        definition = _define(cls, inherited)
        definitions[definition.key] = definition
        _set_class_attribute(cls, "flow", inherited)
        _set_class_attribute(cls, "forward", _generate_forward(definition))
    return definitions


def _forward_of_layer(cls: type[nn.Module], base: type[nn.Module]) -> FunctionType | None:
    """Return the forward of the layer of torch that a class extends, where it has none itself."""
    # A graph has a forward for those that write theirs another way; it hides no layer's.
    order = [kind for kind in cls.__mro__ if kind not in base.__mro__]
    found = next((kind for kind in order if "forward" in vars(kind)), None)
    forward = vars(found).get("forward") if found is not None and is_layer(found) else None
    return forward if isinstance(forward, FunctionType) else None


def layer_behind(cls: type[nn.Module], base: type[nn.Module]) -> type[nn.Module]:
    """Return the first layer of torch after `base` among the bases of a class, or `nn.Module`."""
    order = cls.__mro__
    return next((kind for kind in order[order.index(base) :] if is_layer(kind)), nn.Module)


def is_layer(kind: type) -> bool:
    """Return True if a class is a layer or container of torch."""
    return kind.__module__.startswith("torch.nn.") and kind is not nn.Module


def _set_class_attribute(cls: type, name: str, value: object) -> None:
    setattr(cls, name, value)


def _define(cls: type, function: Callable[..., Any], *, static: bool = False) -> Definition:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[0 if static else 1 :]
    return Definition(
        key=f"{cls.__module__}.{cls.__qualname__}.{function.__name__}",
        title=f"{cls.__name__}.{'forward' if function.__name__ == 'flow' else function.__name__}",
        function=function,
        signature=signature.replace(parameters=parameters),
        static=static,
    )


def _generate_forward(definition: Definition) -> Callable[..., Any]:
    """Make a `forward` with the signature of `flow`; a packed `*args` would cost at every call."""
    parameters, namespace = signature_text(definition)
    names = ", ".join(["self", *definition.parameters])
    inputs = f"({''.join(f'{each}, ' for each in definition.parameters)})"
    # Names that no parameter has; the step of a recording is at `STEP_LINE`.
    source = (
        f"def forward({parameters}):\n"
        f"    if _recordings:\n"
        f"        _answer = _recorded(self, _definition, {inputs})\n"
        f"        if _answer is not _with_values:\n"
        f"            return _answer\n"
        f"    _plans = self._flodl_plans[{definition.key!r}]\n"
        f"    if _must_run_plainly():\n"
        f"        if _is_traced():\n"
        f"            return _traced(self, _plans, {definition.key!r}, {inputs})\n"
        f"        return _plans.dispatch_plainly({names})\n"
        f"    try:\n"
        f"        return _plans.dispatch({names})\n"
        f"    except Exception as _error:\n"
        f"        _explain(_error, self)\n"
        f"        raise\n"
    )
    namespace |= {
        "_must_run_plainly": must_run_plainly,
        "_is_traced": is_traced_by_tool,
        "_traced": run_traced,
        "_explain": explain,
        "_definition": definition,
        "_recordings": RECORDINGS,
        "_recorded": recorded_forward,
        "_with_values": WITH_VALUES,
    }
    # The text is made here, from a checked signature.
    exec(compile(source, GENERATED, "exec"), namespace)
    forward: Callable[..., Any] = namespace["forward"]
    vars(forward)["__flodl_definition__"] = definition
    function = definition.function
    forward.__module__ = function.__module__
    forward.__qualname__ = f"{function.__qualname__.rpartition('.')[0]}.forward"
    forward.__doc__ = function.__doc__
    forward.__annotations__ = {
        name: "torch.Tensor" if text in ("Flow", Flow) else text
        for name, text in function.__annotations__.items()
    }
    return forward


def _generate_subflow(definition: Definition) -> Callable[..., Any]:
    forward = _generate_forward(definition)
    function = definition.function

    @wraps(function)
    def method(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if current_tracer() is not None:
            return function(self, *args, **kwargs)
        return forward(self, *args, **kwargs)

    return method
