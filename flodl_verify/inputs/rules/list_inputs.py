"""Guesses of lists of feature maps, as decoders take them from the stages of an encoder."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from flodl_verify.values.input_slots import Slot, State
from flodl_verify.values.recipes import Arguments

Shape = tuple[int, ...]

BATCH = 2
_LIST = re.compile(r"\b(list|sequence|tuple|iterable|collection)\b.*tensor", re.IGNORECASE)
_NAMES = re.compile(r"features|feats|feature_maps|fmaps|xs|skips|encoder_outputs|\w+_list|pyramid")
_FIRST_SIDE = 64
_SIDE = 16
_COUNTS = (4, 3, 2, 5, 6)
_MOST = 8
_MAX_GUESSES = 40


def guess_lists(model: nn.Module, made_of: Arguments | None) -> Iterator[Arguments]:
    """Yield arguments of which the first is a list of feature maps, where the signature requires one.

    Channels come from lists of numbers among the constructor's arguments, else from the first layer;
    sides halve from one map to the next, or stay.
    """
    kind = _asks(model)
    if kind == "":
        return
    for number, channels in enumerate(_channels(model, made_of)):
        for shrinks in (True, False):
            shapes = [
                (BATCH, count, side, side)
                for count, side in zip(
                    channels, _sides(len(channels), shrinks=shrinks), strict=True
                )
            ]
            if number < _MAX_GUESSES:
                tensors = [torch.randn(shape) for shape in shapes]
                yield ((tensors,) if kind == "list" else tuple(tensors)), {}


def list_changes(state: State, numbers: Sequence[int]) -> Iterator[State]:
    """Yield states in which one list has other channels, another length, or other sides."""
    for place, slot in enumerate(state):
        if slot.kind == "list":
            for items in _other_items(slot.items, numbers):
                yield (*state[:place], replace(slot, items=items), *state[place + 1 :])


def as_lists(state: State) -> Iterator[State]:
    """Yield states in which one tensor is a list of such tensors."""
    for place, slot in enumerate(state):
        if slot.kind == "float" and slot.shape:
            for count in _COUNTS[:3]:
                listed = Slot("list", key=slot.key, items=(slot.shape,) * count)
                yield (*state[:place], listed, *state[place + 1 :])


def _asks(model: nn.Module) -> str:
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return ""
    needed = [item for item in parameters if item.default is item.empty]
    if len(needed) != 1:
        return ""
    first = needed[0]
    if first.kind is first.VAR_POSITIONAL:
        return "several"
    told = "" if first.annotation is first.empty else str(first.annotation)
    named = not told and _NAMES.fullmatch(first.name.lower())
    return "list" if named or _LIST.search(told) else ""


def _channels(model: nn.Module, made_of: Arguments | None) -> Iterator[Sequence[int]]:
    args, kwargs = made_of or ((), {})
    for value in (*kwargs.values(), *args):
        if not isinstance(value, (list, tuple)) or not 2 <= len(value) <= _MOST:
            continue
        if all(type(item) is int for item in value):
            yield from (value, value[::-1], value[1:])
    counts = [
        layer.in_channels
        for layer in model.modules()
        if isinstance(layer, nn.modules.conv._ConvNd)
    ]
    if counts and len(counts) <= _MOST:
        yield from (counts, counts[::-1])
    for channels in dict.fromkeys(counts[:2]):
        for count in _COUNTS:
            yield [channels] * count


def _sides(count: int, *, shrinks: bool) -> list[int]:
    return [max(_FIRST_SIDE >> number, 1) if shrinks else _SIDE for number in range(count)]


def _other_items(items: tuple[Shape, ...], numbers: Sequence[int]) -> Iterator[tuple[Shape, ...]]:
    present = {size for shape in items for size in shape}
    for size in (number for number in numbers if number in present):
        for other in (number for number in numbers if number != size):
            for at in range(len(items)):
                if len(items[at]) > 1 and items[at][1] == size:
                    changed = (items[at][0], other, *items[at][2:])
                    yield (*items[:at], changed, *items[at + 1 :])
            yield tuple(
                tuple(other if part == size else part for part in shape) for shape in items
            )
    if len(items) > 1:
        yield from (items[1:], items[:-1])
    if len(items) < _MOST:
        last = items[-1]
        yield (*items, last)
        yield (*items, (*last[:2], *(max(side // 2, 1) for side in last[2:])))
    yield tuple((*shape[:2], *(side * 2 for side in shape[2:])) for shape in items)
    yield items[::-1]
