"""Flows without a plain body under `torch.fx`: the trace gets a plan without guards on its inputs.

A trace calls a module with stand-ins for values (https://docs.pytorch.org/docs/stable/fx.html), of which
no size and no truth is known.  Nothing can be recorded then, but a plan can be run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, final

import torch
from torch.fx import Proxy

from flodl.errors import FlowError
from flodl.tracing.pytrees import leaves, map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.graph.compiled_plan import CompiledPlan
    from flodl.tracing.call_inputs import Definition


@final
class _AskedError(Exception):
    """A plan needs a property of an input."""


@final
class _Unknown(torch.Tensor):
    """Some tensor without any properties."""

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Never:
        raise _AskedError


def is_symbolic(inputs: tuple[Any, ...]) -> bool:
    """Return True if any input, or part of one, is a stand-in of `torch.fx`."""
    return any(map(_is_stand_in, leaves(inputs)))


def run_symbolically(
    module: Any,
    definition: Definition,
    programs: tuple[CompiledPlan, ...],
    inputs: tuple[Any, ...],
) -> Any:
    """Run the first plan that serves some tensors without reading anything of them.

    Raises:
        FlowError: there is none.
    """
    blank = torch.empty(0).as_subclass(_Unknown)
    known = map_leaves(inputs, lambda leaf: blank if _is_stand_in(leaf) else leaf)
    names = ", ".join(("self", *definition.inputs))
    for program in programs:
        if _asks_nothing(program) and _admits(program.admission(names), module, known):
            return program.run_plainly(module, *inputs)
    message = (
        f"{definition.title}: torch.fx cannot trace this flow: its source is not there to be traced, and its "
        "plans ask for sizes, values or attributes of the inputs; use `torch.export.export(model, "
        "example_inputs)` after one call of the model"
    )
    raise FlowError(message)


def _is_stand_in(value: object) -> bool:
    return issubclass(type(value), Proxy)  # a Flow claims the class of its value


def _asks_nothing(program: CompiledPlan) -> bool:
    return all(guard.at_entry or guard.presence for guard in program.spec.guards)


def _admits(admission: Callable[..., bool], module: Any, inputs: tuple[Any, ...]) -> bool:
    try:
        return admission(module, *inputs)
    except _AskedError:
        return False
