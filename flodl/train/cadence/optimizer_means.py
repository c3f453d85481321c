"""Averages of optimizer states over ranks, so that one checkpoint serves any number of ranks.

Each rank has its own moments and step counts, which follow its own batches. Before a checkpoint, and at the
end of each epoch, they are averaged: two ranks that made 10 and 4 steps of Adam go on at step 7, with the
mean of their moments. A state that only some ranks have (a parameter that got no gradient on the others) is
the mean over these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor, optim

# Of each entry of a state: parameter, name, shape and dtype of a tensor; or `None` and a number.
Layout: TypeAlias = list[list[Any]]
_KINDS: Final = (bool, str)


def layout_of(optimizer: optim.Optimizer) -> Layout:
    """Return what the state of an optimizer holds, as values that JSON keeps."""
    found: Layout = []
    for place, parameter in enumerate(_parameters(optimizer)):
        for name, value in sorted(optimizer.state.get(parameter, {}).items()):
            if isinstance(value, Tensor):
                if not value.is_complex() and value.dtype != torch.bool:
                    dtype = str(value.dtype).removeprefix("torch.")
                    found.append([place, name, list(value.shape), dtype])
            elif isinstance(value, int | float) and not isinstance(value, _KINDS):
                found.append([place, name, None, value])
    return found


def contributions(optimizer: optim.Optimizer, layouts: Sequence[Layout]) -> list[Tensor]:
    """Return the tensors of the state of this rank, zeros where only other ranks have one."""
    parameters = _parameters(optimizer)
    found = []
    for place, name, shape, dtype in _shared(layouts):
        held = optimizer.state.get(parameters[place], {}).get(name)
        wide = torch.promote_types(getattr(torch, dtype), torch.float32)
        found.append(torch.zeros(shape, dtype=wide) if held is None else held.to(wide))
    return found


@torch.no_grad()
def commit(optimizer: optim.Optimizer, layouts: Sequence[Layout], sums: Sequence[Tensor]) -> None:
    """Write the means into the state, in place where there is one."""
    parameters = _parameters(optimizer)
    holders = _holders(layouts)
    for (place, name, shape, dtype), total in zip(_shared(layouts), sums, strict=True):
        mean = total / holders[place, name]
        kind: torch.dtype = getattr(torch, dtype)
        state = optimizer.state[parameters[place]]
        if not kind.is_floating_point:
            mean = mean.round()
        held = state.get(name)
        if held is None:
            device = parameters[place].device if shape else torch.device("cpu")
            state[name] = mean.to(device, kind)
        else:
            held.copy_(mean)
    for (place, name), values in _numbers(layouts).items():
        value = math.fsum(values) / len(values)
        whole = all(isinstance(each, int) for each in values)
        optimizer.state[parameters[place]][name] = round(value) if whole else value


@torch.no_grad()
def forget(optimizer: optim.Optimizer) -> None:
    """Set all moments and counts to zero, in place: captured steps keep their addresses."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()


def _parameters(optimizer: optim.Optimizer) -> list[Tensor]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _shared(layouts: Sequence[Layout]) -> list[tuple[int, str, list[int], str]]:
    """Return the tensors of all layouts; where ranks differ in shape, none, so each keeps its own."""
    found: dict[tuple[int, str], set[tuple[tuple[int, ...], str]]] = {}
    for layout in layouts:
        for place, name, shape, dtype in layout:
            if shape is not None:
                found.setdefault((place, name), set()).add((tuple(shape), dtype))
    return [
        (place, name, list(shape), dtype)
        for (place, name), kinds in sorted(found.items())
        if len(kinds) == 1
        for shape, dtype in kinds
    ]


def _holders(layouts: Sequence[Layout]) -> Mapping[tuple[int, str], int]:
    counts: dict[tuple[int, str], int] = {}
    for layout in layouts:
        for place, name, _, _ in layout:
            counts[place, name] = counts.get((place, name), 0) + 1
    return counts


def _numbers(layouts: Sequence[Layout]) -> Mapping[tuple[int, str], list[float]]:
    found: dict[tuple[int, str], list[float]] = {}
    for layout in layouts:
        for place, name, shape, value in layout:
            if shape is None:
                found.setdefault((place, name), []).append(value)
    return found
