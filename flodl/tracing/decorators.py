"""Decorators around the generated `forward` of a flow module."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from flodl.errors import FlowError
from flodl.tracing.callsite import GENERATED
from flodl.tracing.signature_text import signature_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.tracing.call_inputs import Definition

    Method = TypeVar("Method", bound=Callable[..., Any])

AROUND: Final = "__flodl_on_forward__"
_NAMED: Final = inspect.Parameter.KEYWORD_ONLY
_STARS: Final[dict[Any, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def on_forward(decorator: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Put a decorator around the generated `forward`, not around the `flow` that describes it.

    For decorators that look at a call: they rename or convert what is given, check it, or change what is
    returned. They run at every call, with tensors; above `flow` itself they would see the proxies of a
    trace, and only while it is recorded. Several apply in the same order as above a `forward`.

    A subclass that writes its own `flow` has a `forward` without them, as in Python, and cannot call this
    `flow` by `super()`.

    Args:
        decorator: takes a function with the parameters of `flow` and returns the new `forward`.

    Example:
        >>> import functools
        >>> import torch
        >>> from flodl import Flow, FlowModule, on_forward
        >>> def in_floats(forward):
        ...     @functools.wraps(forward)
        ...     def wrapper(self, x):
        ...         return forward(self, x.float())
        ...     return wrapper
        >>> class Net(FlowModule):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.body = torch.nn.Linear(4, 2)
        ...     @on_forward(in_floats)
        ...     def flow(self, x: Flow) -> Flow:
        ...         return x.through(self.body)
        >>> Net()(torch.ones(3, 4, dtype=torch.int64)).shape
        torch.Size([3, 2])
    """

    def mark(method: Method) -> Method:
        vars(method)[AROUND] = (*decorators_of(method), decorator)
        return method

    return mark


def decorators_of(function: Callable[..., Any]) -> tuple[Callable[[Any], Any], ...]:
    """Return the decorators around the forward of a flow, the innermost first."""
    found: tuple[Callable[[Any], Any], ...] = vars(function).get(AROUND, ())
    return found


def refuse_elsewhere(name: str, function: Callable[..., Any]) -> None:
    """Raise for a method that is no `flow`.

    Raises:
        FlowError: it is marked by `on_forward`.
    """
    if decorators_of(function):
        message = (
            f"`on_forward` stands above `{name}`; it is for `flow`, of which `forward` is made"
        )
        raise FlowError(message)


def decorated(forward: Callable[..., Any], definition: Definition) -> Any:
    """Return the generated forward of a flow within its decorators, the lowest innermost."""
    around = decorators_of(definition.function)
    made: Any = _as_if_written(forward, definition) if around else forward
    for decorator in around:
        made = decorator(made)
    if isinstance(made, FunctionType):
        vars(made).update(vars(forward))
    return made


def only_described(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement of a flow with decorators: called by name, it would be without them."""

    def flow(*_: Any, **__: Any) -> Any:
        raise FlowError(undecorated(function, "flow"))

    return flow


def undecorated(function: Callable[..., Any], name: str) -> str:
    """Return why a forward with decorators is not called by name inside a flow."""
    kind = function.__qualname__.rpartition(".")[0]
    return (
        f"`{name}` of `{kind}` is called by name inside a flow, where the decorators of its forward "
        "cannot run; call the module itself, or put what two classes need into a method of its own"
    )


def _as_if_written(forward: Callable[..., Any], definition: Definition) -> Callable[..., Any]:
    """Return a function that calls the generated forward, and claims the place of the flow in the source.

    Decorators read the source file, the signature and the documentation of what they are given.
    """
    shown, namespace = signature_text(definition)
    given = ", ".join(
        ["self", *(passed(each) for each in definition.signature.parameters.values())]
    )
    source = f"def forward({shown}):\n    return _generated({given})\n"
    # The text is made here, from a checked signature.
    namespace["_generated"] = forward
    exec(compile(source, GENERATED, "exec"), namespace)
    made: Callable[..., Any] = namespace["forward"]
    code = inspect.unwrap(definition.function).__code__
    made.__code__ = made.__code__.replace(
        co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
    )
    made.__module__, made.__qualname__ = forward.__module__, forward.__qualname__
    made.__doc__, made.__annotations__ = forward.__doc__, dict(forward.__annotations__)
    return made


def passed(parameter: inspect.Parameter) -> str:
    """Return how a call passes on a parameter, as text."""
    name = parameter.name
    return f"{name}={name}" if parameter.kind is _NAMED else _STARS.get(parameter.kind, "") + name
