"""Changes of inputs that a model's error names: a shape, a kind of values, something to call."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from flodl_verify.values.input_slots import State, fixed, put, tensor_slots, with_axis

_SHAPE = re.compile(r"\[((?:\d+, ?)*\d+)\]")
_NO_VIEW = re.compile(r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)")
_WANTED_AND_GOT = (
    re.compile(r"to have (?P<wanted>\d+) channels, but got (?P<got>\d+)"),
    re.compile(r"\(\d+x(?P<got>\d+) and (?P<wanted>\d+)x\d+\)"),
    re.compile(r"must be equal to input_size\. expected (?P<wanted>\d+), got (?P<got>\d+)"),
    re.compile(r"normalized_shape=\[(?P<wanted>\d+)\].*?size ?\[[\d, ]*?(?P<got>\d+)\]"),
)
_SAME_OBJECT = re.compile(r"assert .*\b[a-z_]\w* is (?!not\b|none\b)[a-z_]\w*")
_UNIT_WORDS = ("nothing but nan", "between 0 and 1", "0 <= p <= 1", "probabilit", "simplex")
_CALLABLE_WORDS = ("'tensor' object is not callable", "'tensor' object has no attribute 'forward'")


def said_shapes(state: State, text: str) -> Iterator[State]:
    """Yield states with the shapes and sizes that a message in small letters names."""
    yield from _with_wanted_shape(state, text)
    yield from _with_part_of(state, text)
    if "target" in text or "must be the same" in text:
        yield from _with_equal_shapes(state, text)


def said_values(state: State, text: str) -> Iterator[State]:
    """Yield states with other kinds of values: probabilities, one tensor twice, a layer that is called."""
    if any(words in text for words in _UNIT_WORDS):
        floats = [(place, slot) for place, slot in enumerate(state) if slot.kind == "float"]
        yield tuple(replace(slot, kind="unit") if slot.kind == "float" else slot for slot in state)
        for place, slot in floats:
            yield put(state, place, replace(slot, kind="unit"))
    if _SAME_OBJECT.search(text):
        same = list(tensor_slots(state))[1:]
        alias = {place: replace(slot, kind="alias", shape=()) for place, slot in same}
        yield tuple(alias.get(place, slot) for place, slot in enumerate(state))
    if any(words in text for words in _CALLABLE_WORDS):
        for place, slot in list(tensor_slots(state))[1:]:
            yield put(state, place, fixed(nn.Identity(), slot.key))


def _with_equal_shapes(state: State, text: str) -> Iterator[State]:
    """Yield states in which a tensor has the shape of another that it is compared with."""
    said = [tuple(int(size) for size in found[1].split(",")) for found in _SHAPE.finditer(text)]
    for one, other in itertools.permutations(dict.fromkeys(said), 2):
        for place, slot in tensor_slots(state):
            if slot.shape == one:
                yield put(state, place, replace(slot, shape=other))


def _with_wanted_shape(state: State, text: str) -> Iterator[State]:
    """Yield states in which the tensor that cannot be viewed in a shape has that shape."""
    for said in _NO_VIEW.finditer(text):
        wanted = tuple(int(size) for size in said[1].split(","))
        for place, slot in tensor_slots(state):
            if math.prod(slot.shape) != int(said[2]):
                continue
            small = tuple(1 if size < 0 else size for size in wanted)
            last = max((axis for axis, size in enumerate(small) if size != 1), default=0)
            for shape in dict.fromkeys((small[: last + 1], small)):
                yield put(state, place, replace(slot, shape=shape))


def _with_part_of(state: State, text: str) -> Iterator[State]:
    """Yield states of which what is put together has the size that is wanted, not more or less."""
    at = [
        (place, axis, slot.shape[axis])
        for place, slot in tensor_slots(state)
        for axis in range(1, len(slot.shape))
    ]
    for said in itertools.chain.from_iterable(item.finditer(text) for item in _WANTED_AND_GOT):
        wanted, got = int(said["wanted"]), int(said["got"])
        for place, axis, size in at:
            if size + wanted - got > 0:
                yield put(state, place, with_axis(state[place], axis, size + wanted - got))
        for first, second in itertools.combinations(at, 2):
            if first[0] == second[0] or first[2] + second[2] != got:
                continue
            for part in dict.fromkeys((wanted // 2, 1, 3, wanted - 3, wanted - 1)):
                if 0 < part < wanted:
                    one = put(state, first[0], with_axis(state[first[0]], first[1], part))
                    other = with_axis(state[second[0]], second[1], wanted - part)
                    yield put(one, second[0], other)
