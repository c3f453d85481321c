"""Single changes of inputs, likeliest first, from the errors of a model about refused ones."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from flodl_verify.inputs.rules.list_inputs import as_lists, list_changes
from flodl_verify.inputs.rules.said_inputs import said_shapes, said_values
from flodl_verify.values.input_slots import Kind, Slot, State, fixed, put, tensor_slots, with_axis

# Sizes in messages: "(14x7 and 4x512)", "[2, 32, 9]", "expected 4, got 3".
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:x\d+)*(?![\w.])")
_PRODUCT = re.compile(r"cannot be multiplied \((\d+)x(\d+) and (\d+)x\d+\)")
_MAX_SIZE = 4096
_SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256)
# Sides of pictures that networks with a linear layer behind their convolutions are made for.
_SIDES = (28, 32, 84, 64, 96, 224, 128, 227, 256, 299, 48, 16, 112, 80, 36, 40)
_RANK_WORDS = (
    "dimensions", "of dimension ", "dimension out of", "dim ", "dims", "unpack", "too many indices",
    "permute", "unbatched",
    "broadcast shape", "1d or 2d", "2d or 3d", "2-d or 3-d", "got 1d", "got 2d", "got 3d", "got 4d",
    "expected 2d", "expected 3d", "expected 4d", "expected 5d", "axes", "ndim", "rank",
)  # fmt: skip
_INTEGER_WORDS = (
    "indices", "scalar types: long", "expected tensor for argument", "dtype long", "must be long",
    "used as indices", "int64", "scalar type int", "not implemented for 'float'",
)  # fmt: skip
_FLOAT_WORDS = (
    "scalar type float", "mat1 and mat2 must have the same dtype", "not implemented for 'long'",
    "floating point", "not implemented for 'bool'", "to have the same dtype", "same dtype",
    "input dtype should be", "long int",
)  # fmt: skip
_LIST_WORDS = (
    "must be tuple of tensors", "no attribute 'copy'", "no attribute 'append'", "no attribute 'pop'",
    "no attribute 'reverse'", "no attribute 'insert'", "no attribute 'extend'",
)  # fmt: skip
_RANGE_WORDS = ("out of range", "out of bounds", "class values must be smaller")
_PLAIN_WORDS = (
    "only integer tensors", "cannot be interpreted as an integer", "as an index",
    "must be tuple of ints", "must be int", "single element", "ambiguous", "only one element",
    "invalid combination of arguments", "scalars can be converted", "an integer is required",
    "unhashable", "not tensor",
)  # fmt: skip
_SMALLER_WORDS = (
    "kernel size can't be greater", "too small", "output size", "more than 1 value", "selected index k",
)  # fmt: skip


def changes_of(state: State, message: str, sizes: Sequence[int]) -> Iterator[State]:
    """Yield states that differ in one step; `sizes` are those that the model itself knows."""
    text = message.lower()
    numbers = _numbers(text)
    yield from _said_changes(state, text, numbers)
    known = [number for number in numbers if _is_present(state, number)]
    yield from _resized(state, known, numbers)
    yield from _resized(state, None, (*numbers, *_sides(numbers)))
    yield from _with_other_rank(state, (*numbers, *sizes[:4]))
    yield from _resized(state, None, (*sizes, *_sides(sizes)))
    yield from _with_plain_values(state, start=1)
    yield from _resized(state, None, _SIZES)
    yield from _larger(state)
    yield from _of_kind(state, "float", "int")
    yield from _with_plain_values(state)


def _said_changes(state: State, text: str, numbers: Sequence[int]) -> Iterator[State]:
    """Yield states that the words of a message require."""
    yield from _with_features(state, text, start=1)
    yield from said_shapes(state, text)
    yield from said_values(state, text)
    yield from list_changes(state, numbers)
    if any(word in text for word in _LIST_WORDS):
        yield from as_lists(state)
    yield from _of_said_kind(state, text)
    if "nothing but nan" in text:
        yield from _with_masks_ahead(state)
    if "length" in text:
        yield from _with_lengths(state)
    if any(word in text for word in _RANGE_WORDS):
        yield from _with_smaller_numbers(state)
        yield from _of_kind(state, "float", "int")  # the model makes whole numbers of it
    if any(word in text for word in _PLAIN_WORDS):
        yield from _with_plain_values(state, start=min(1, len(state) - 1))
    if any(word in text for word in _SMALLER_WORDS):
        yield from _larger(state)
    if any(word in text for word in _RANK_WORDS):
        yield from _with_other_rank(state, numbers)
    if "mat1 and mat2 shapes" in text:
        yield from _with_features(state, text)
        yield from _with_other_pictures(state)
    if "must match" in text:
        yield from _with_other_sides(state, numbers)


def _of_said_kind(state: State, text: str) -> Iterator[State]:
    if any(word in text for word in _INTEGER_WORDS):
        yield from _of_kind(state, "float", "int")
    if any(word in text for word in _FLOAT_WORDS):
        yield from _of_kind(state, "int", "float")
        yield from _of_kind(state, "bool", "float")


def _numbers(text: str) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for match in _NUMBER.finditer(text):
        for part in match.group().lstrip("-").split("x"):
            found.setdefault(int(part))
    return tuple(number for number in found if 0 < number <= _MAX_SIZE)


def _sides(numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the sides of squares with so many cells, or one less: a class token adds one."""
    cells = [cell for number in numbers for cell in (number, number - 1) if cell > 3]
    found = [math.isqrt(cell) for cell in cells if math.isqrt(cell) ** 2 == cell]
    return tuple(dict.fromkeys(side for side in found if side not in numbers))


def _is_present(state: State, number: int) -> bool:
    return any(number in slot.shape for slot in state)


def _resized(
    state: State, present: Sequence[int] | None, wanted: Sequence[int]
) -> Iterator[State]:
    """Yield states with another size: of one dimension, or of all that have the same size."""

    def others(size: int) -> list[int]:
        if present is not None and size not in present:
            return []
        return [other for other in wanted if other != size]

    # From the last dimension on: the first is the batch, which rarely is what is wrong.
    longest = max((len(slot.shape) for slot in state), default=0)
    for axis in reversed(range(longest)):
        at = [(place, slot) for place, slot in tensor_slots(state) if axis < len(slot.shape)]
        for place, slot in at:
            for other in others(slot.shape[axis]):
                yield put(state, place, with_axis(slot, axis, other))
        here = [slot.shape[axis] for _, slot in at]
        for size in dict.fromkeys(item for item in here if here.count(item) > 1):
            for other in others(size):
                yield tuple(
                    with_axis(slot, axis, other)
                    if slot.shape[axis : axis + 1] == (size,)
                    else slot
                    for slot in state
                )
    every = [size for _, slot in tensor_slots(state) for size in slot.shape]
    for size in dict.fromkeys(item for item in every if every.count(item) > 1):
        for other in others(size):
            yield tuple(_with_size(slot, size, other) for slot in state)


def _with_size(slot: Slot, size: int, other: int) -> Slot:
    return replace(slot, shape=tuple(other if item == size else item for item in slot.shape))


def _with_other_rank(state: State, numbers: Sequence[int]) -> Iterator[State]:
    for place, slot in tensor_slots(state):
        shape = slot.shape
        for axis in range(len(shape)):
            fewer = (*shape[:axis], *shape[axis + 1 :])
            yield put(state, place, replace(slot, shape=fewer))
        if len(shape) >= 5:
            continue
        for axis, size in itertools.product(
            range(len(shape), -1, -1), dict.fromkeys((7, 1, *numbers))
        ):
            yield put(state, place, replace(slot, shape=(*shape[:axis], size, *shape[axis:])))
    # All tensors at once: a model of sequences takes sequences everywhere.
    if sum(1 for _ in tensor_slots(state)) > 1:
        for axis in (1, 0):
            yield tuple(
                slot
                if slot.kind in {"fixed", "list"} or len(slot.shape) < axis
                else replace(slot, shape=(*slot.shape[:axis], 7, *slot.shape[axis:]))
                for slot in state
            )


def _with_features(state: State, text: str, start: int = 0) -> Iterator[State]:
    """Yield states in which what a linear layer refused is a vector of its features, or several.

    Arguments are looked at from `start` on: the partner of an image often has another rank.
    """
    match = _PRODUCT.search(text)
    if match is None or not state:
        return
    rows, columns, features = (int(number) for number in match.groups())
    batch = state[0].shape[:1]
    for place, slot in tensor_slots(state):
        if place >= start and slot.shape[-1:] == (columns,) and math.prod(slot.shape[:-1]) == rows:
            yield put(state, place, replace(slot, shape=(*batch, features)))
            yield put(state, place, replace(slot, shape=(*batch, 7, features)))
    yield from _in_pairs(state, columns, features, start)


def _in_pairs(state: State, size: int, other: int, start: int) -> Iterator[State]:
    """Yield states in which two arguments at once get another last size."""
    places = [place for place, slot in tensor_slots(state) if slot.shape[-1:] == (size,)]
    for pair in itertools.combinations([place for place in places if place >= start], 2):
        changed = state
        for place in pair:
            last = len(state[place].shape) - 1
            changed = put(changed, place, with_axis(state[place], last, other))
        yield changed


def _with_other_pictures(state: State) -> Iterator[State]:
    """Yield states with pictures of the usual sides."""
    for side in _SIDES:
        yield tuple(
            replace(slot, shape=(*slot.shape[:2], side, side))
            if slot.kind == "float" and len(slot.shape) == 4
            else slot
            for slot in state
        )


def _with_other_sides(state: State, numbers: Sequence[int]) -> Iterator[State]:
    """Yield states with one picture of another size, such as a larger one for a skip connection."""
    for place, slot in tensor_slots(state):
        kept, sides = slot.shape[:2], slot.shape[2:]
        if len(sides) > 1 and len(set(sides)) == 1:
            for side in numbers:
                if side != sides[0]:
                    yield put(state, place, replace(slot, shape=(*kept, *[side] * len(sides))))


def _larger(state: State) -> Iterator[State]:
    """Yield states with larger pictures or longer sequences."""
    for factor in (2, 4, 8):
        for kept in (2, 1):
            yield tuple(
                replace(
                    slot,
                    shape=(*slot.shape[:kept], *(size * factor for size in slot.shape[kept:])),
                )
                for slot in state
            )
    for place, slot in tensor_slots(state):
        for axis in range(len(slot.shape)):
            shape = (*slot.shape[:axis], slot.shape[axis] * 2, *slot.shape[axis + 1 :])
            yield put(state, place, replace(slot, shape=shape))


def _of_kind(state: State, before: Kind, after: Kind) -> Iterator[State]:
    for place, slot in tensor_slots(state):
        if slot.kind == before:
            yield put(state, place, replace(slot, kind=after, high=2))
    if sum(slot.kind == before for slot in state) > 1:
        yield tuple(
            replace(slot, kind=after, high=2) if slot.kind == before else slot for slot in state
        )


def _with_smaller_numbers(state: State) -> Iterator[State]:
    for place, slot in tensor_slots(state):
        if slot.kind == "int" and slot.high > 1:
            for high in dict.fromkeys((2, 1)):
                yield put(state, place, replace(slot, high=high))
    yield tuple(replace(slot, high=2) if slot.kind == "int" else slot for slot in state)


def _with_masks_ahead(state: State) -> Iterator[State]:
    """Yield states in which a mask hides what comes later, where one that hides all was refused."""
    for place, slot in tensor_slots(state):
        if slot.kind == "bool" and len(slot.shape) > 1:
            yield put(state, place, replace(slot, high=1))


def _with_lengths(state: State) -> Iterator[State]:
    """Yield states in which one argument says how long each sequence of the first is."""
    first = state[0].shape if state else ()
    if len(first) < 2:
        return
    for batch, length in ((first[0], first[1]), (first[1], first[0])):
        for place, slot in enumerate(state[1:], 1):
            yield put(state, place, fixed(torch.full((batch,), length), slot.key))


def _with_plain_values(state: State, start: int = 0) -> Iterator[State]:
    """Yield states in which one argument, from `start` on, is a number, or nothing."""
    sizes = [size for _, slot in tensor_slots(state) for size in slot.shape]
    roots = [math.isqrt(size) for size in sizes if math.isqrt(size) ** 2 == size]
    values = tuple(dict.fromkeys((*roots, *sizes, 1, 0, 0.5, None)))
    for place, slot in enumerate(state[start:], start):
        for value in values:
            yield put(state, place, fixed(value, slot.key))
    if len(state) > 2:
        # The height and width behind a sequence of patches.
        for value in roots:
            yield (state[0], *(fixed(value, slot.key) for slot in state[1:]))
