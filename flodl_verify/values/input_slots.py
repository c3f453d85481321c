"""Inputs in an abstract form, whose sizes and kinds a search can change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, final

import torch

from flodl_verify.values.recipes import Arguments

Kind = Literal["float", "unit", "int", "bool", "list", "alias", "fixed"]

MAX_ELEMENTS = 1 << 21


@final
@dataclass(frozen=True, slots=True)
class Slot:
    """One argument: a tensor of a shape and kind, a list of tensors, or a fixed value that is neither.

    A `unit` tensor holds numbers from 0 to 1, as probabilities are. Whole numbers of a tensor lie
    below `high`; truths of which `high` is 1 hold above the diagonal only. `items` are the shapes
    in a list. An `alias` is the first tensor once more. `key` is the keyword it is given by, if any;
    `shown` stands for the value where two slots are compared.
    """

    kind: Kind
    shape: tuple[int, ...] = ()
    high: int = 2
    key: str = ""
    shown: str = ""
    items: tuple[tuple[int, ...], ...] = ()
    value: object = field(default=None, compare=False)

    def make(self) -> object:
        """Return a fresh value."""
        if self.kind == "float":
            return torch.randn(self.shape)
        if self.kind == "unit":
            return torch.rand(self.shape)
        if self.kind == "int":
            return torch.randint(self.high, self.shape)
        if self.kind == "bool":
            all_true = torch.ones(self.shape, dtype=torch.bool)
            return all_true.triu(1) if self.high == 1 and len(self.shape) > 1 else all_true
        if self.kind == "list":
            return [torch.randn(shape) for shape in self.items]
        return self.value


State = tuple[Slot, ...]


def fixed(value: object, key: str = "") -> Slot:
    """Return the slot of a value that is no tensor."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return Slot("fixed", key=key, shown=repr(value) if plain else f"#{id(value)}", value=value)


def put(state: State, place: int, slot: Slot) -> State:
    """Return a state with another slot at one place."""
    return (*state[:place], slot, *state[place + 1 :])


def tensor_slots(state: State) -> Iterator[tuple[int, Slot]]:
    """Yield the slots of tensors, with their places."""
    return (pair for pair in enumerate(state) if pair[1].kind not in {"fixed", "alias", "list"})


def with_axis(slot: Slot, axis: int, size: int) -> Slot:
    """Return a slot of which one dimension has another size."""
    return replace(slot, shape=(*slot.shape[:axis], size, *slot.shape[axis + 1 :]))


def state_of(arguments: Arguments) -> State | None:
    """Return the abstract form of arguments, or None if one of them has none."""
    args, kwargs = arguments
    slots = []
    for key, value in (*(("", item) for item in args), *kwargs.items()):
        slot = _slot(value, key)
        if slot is None:
            return None
        slots.append(slot)
    return tuple(slots)


def values_of(state: State) -> Arguments:
    """Make fresh arguments; the caller sets the seed."""
    first = next((place for place, _ in tensor_slots(state)), None)
    values = [slot.make() for slot in state]
    made = [
        (slot.key, values[first] if slot.kind == "alias" and first is not None else value)
        for slot, value in zip(state, values, strict=True)
    ]
    return tuple(value for key, value in made if not key), {
        key: value for key, value in made if key
    }


def is_small(state: State) -> bool:
    """Return True if the tensors of a state are of a size to play with."""
    shapes = [shape for slot in state for shape in (slot.shape, *slot.items)]
    return sum(math.prod(shape) for shape in shapes) <= MAX_ELEMENTS


def _slot(value: object, key: str) -> Slot | None:
    if isinstance(value, list) and value and all(_is_plain(item) for item in value):
        return Slot("list", key=key, items=tuple(tuple(item.shape) for item in value))
    if not isinstance(value, torch.Tensor):
        return fixed(value, key)
    if value.layout != torch.strided or value.is_complex():
        return None
    shape = tuple(value.shape)
    if value.is_floating_point():
        return Slot("float", shape, key=key)
    if value.dtype == torch.bool:
        return Slot("bool", shape, key=key)
    high = int(value.max()) + 1 if value.numel() else 2
    return Slot("int", shape, high=max(high, 2), key=key)


def _is_plain(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32
