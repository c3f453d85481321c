"""Values that a graph carries from one call to the next: forward references."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, final

import torch
from torch import nn

from flodl.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Callable

# A history of this many calls is cut, so that memory stays bounded where end_step is forgotten.
MAX_HISTORY = 64


@final
class Memory:
    """The states of one graph, by tag.

    Attributes:
        values: the value of each tag in the last call.
        history: calls since the gradient history of a value was last cut.
    """

    def __init__(self) -> None:
        self.values: dict[str, torch.Tensor] = {}
        self.history: dict[str, int] = {}
        self.shapes: dict[str, torch.Size] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Memory:
        """Copy the values without their gradient history, which belongs to the original."""
        made = Memory()
        made.values = {name: value.detach().clone() for name, value in self.values.items()}
        made.shapes = dict(self.shapes)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: value.detach() for name, value in self.values.items()}
        return _restored, (values, dict(self.shapes))

    def move(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Apply a device or dtype change to every value."""
        self.values = {name: function(value.detach()) for name, value in self.values.items()}
        self.history.clear()

    def detach(self) -> None:
        """Keep the values and cut their gradient history."""
        self.values = {name: value.detach() for name, value in self.values.items()}
        self.history.clear()

    def clear(self) -> None:
        """Forget the values; their shapes stay known."""
        self.values = {}
        self.history.clear()


def _restored(values: dict[str, torch.Tensor], shapes: dict[str, torch.Size]) -> Memory:
    memory = Memory()
    memory.values, memory.shapes = values, shapes
    return memory


def read_state(graph: Any, name: str, like: torch.Tensor, initial: Any = None) -> torch.Tensor:
    """Return the value that a tag had in the last call; at first `initial`, else zeros.

    Args:
        graph: the graph that carries the state.
        name: the tag.
        like: the stream where the state is used; zeros take its dtype and device, and its shape
            unless another shape of the state is known from an earlier call.
        initial: a tensor, or a function of the stream that makes one.

    Raises:
        GraphError: the state belongs to a batch of another size.
    """
    memory: Memory = graph._flodl_memory
    value = memory.values.get(name)
    if value is None:
        return _initial(memory, name, like, initial)
    if value.dim() and like.dim() and value.size(0) != like.size(0) and value.dim() == like.dim():
        message = (
            f"the state `{name}` is from a batch of {value.size(0)}, this batch has {like.size(0)}; call "
            "end_sequence() (or reset_state()) between sequences of different batch size"
        )
        raise GraphError(message)
    return value


def _initial(memory: Memory, name: str, like: torch.Tensor, initial: Any) -> torch.Tensor:
    if isinstance(initial, torch.Tensor):
        return initial.to(like)
    if initial is not None:
        made: torch.Tensor = initial(like)
        return made
    shape = memory.shapes.get(name)
    if shape is None or len(shape) != like.dim():
        return torch.zeros_like(like)
    return torch.zeros(like.size(0), *shape[1:], dtype=like.dtype, device=like.device)


def write_state(graph: Any, name: str, value: torch.Tensor) -> None:
    """Keep the value of a tag for the next call."""
    memory: Memory = graph._flodl_memory
    memory.shapes[name] = value.shape
    if value.requires_grad:
        memory.history[name] = memory.history.get(name, 0) + 1
        if memory.history[name] > MAX_HISTORY:
            memory.history[name] = 0
            value = value.detach()
            _warn(name)
    memory.values[name] = value


def _warn(name: str) -> None:
    warnings.warn(
        f"the gradient history of state `{name}` reached {MAX_HISTORY} calls and was cut; call end_step() "
        "after each optimizer step",
        stacklevel=2,
    )


def graphs_below(module: nn.Module) -> list[Any]:
    """Return the module and all modules below it that carry states."""
    return [each for each in module.modules() if "_flodl_memory" in vars(each)]


def has_state(module: nn.Module) -> bool:
    """Return True if any state is held."""
    return any(each._flodl_memory.values for each in graphs_below(module))


def detach_state(module: nn.Module) -> None:
    """Cut the gradient history of all states, of nested graphs and of modules with `detach_state`."""
    for each in module.modules():
        if "_flodl_memory" in vars(each):
            each._flodl_memory.detach()  # type: ignore[operator]
        elif each is not module and "detach_state" in dir(type(each)):
            each.detach_state()  # type: ignore[operator]


def reset_state(module: nn.Module) -> None:
    """Forget all states, of nested graphs and of modules with `reset`."""
    for each in module.modules():
        if "_flodl_memory" in vars(each):
            each._flodl_memory.clear()  # type: ignore[operator, union-attr]
        elif each is not module and "reset" in dir(type(each)):
            each.reset()  # type: ignore[operator]
