"""Other inputs made from one example: another batch size, optional inputs left out or set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import final

import torch

from flodl_verify.values.recipes import Arguments, replace_tensors
from flodl_verify.values.snapshot import tensors_in

# Of the length of a sequence or the side of an image.
_PARTS = (4, 2)
_MULTIPLE = 32
# Four rows show what rows do to each other; it may also be a sequence, which is then no trifle.
_FEW_ROWS = 4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Changed arguments, and in words what was changed; of one group, one is enough."""

    label: str
    arguments: Arguments
    group: str


def batch_variants(arguments: Arguments) -> Iterator[Variant]:
    """Yield the arguments with other batch sizes, likeliest first.

    The batch dimension is not known, so the first dimension of the first tensor is tried, then the
    second; tensors that do not have that size there are left as they are.
    """
    tensors = [item for _, item in tensors_in(arguments) if item.dim() > 0]
    if not tensors:
        return
    for dim in (0, 1):
        sizes = [item.shape[dim] for item in tensors if item.dim() > dim]
        for size in dict.fromkeys(sizes):
            if size == 0:
                continue
            yield _rebatched(arguments, dim, size, size + 1)
            yield _rebatched(arguments, dim, size, 2 * size)
            if size > 2:
                yield _rebatched(arguments, dim, size, 2)


def short_batches(arguments: Arguments) -> Iterator[Variant]:
    """Yield the arguments with few rows, where they have more than twice as many."""
    tensors = [item for _, item in tensors_in(arguments) if item.dim() > 0]
    for size in dict.fromkeys(item.shape[0] for item in tensors):
        if size > 2 * _FEW_ROWS:
            yield _rebatched(arguments, 0, size, _FEW_ROWS)


def shrunk_variants(arguments: Arguments) -> Iterator[Variant]:
    """Yield arguments that take less time: smaller images, shorter sequences, a batch of two.

    The smallest come first; a model refuses wrong ones early, where it looks at its sizes.
    """
    tensors = [item for _, item in tensors_in(arguments) if item.dim() > 0]
    batches = dict.fromkeys(
        (dim, item.shape[dim])
        for dim in (0, 1)
        for item in tensors
        if item.dim() > dim and item.shape[dim] > 2
    )
    sizes = dict.fromkeys(size for item in tensors for size in item.shape[1:])
    for part in _PARTS:
        shorter = {size: _shortened(size, part) for size in sizes if _shortened(size, part) < size}
        each = ({size: wanted} for size, wanted in shorter.items()) if len(shorter) > 1 else ()
        for wanted in (shorter, *each) if shorter else ():
            short = replace_tensors(
                arguments, {id(item): _cut(item, wanted) for _, item in tensors_in(arguments)}
            )
            label = ", ".join(f"size {new} instead of {old}" for old, new in wanted.items())
            for dim, size in list(batches)[:1]:
                if size not in wanted:
                    smallest = _rebatched(short, dim, size, 2)
                    yield replace(smallest, label=f"{label}, {smallest.label}")
            yield Variant(label=label, arguments=short, group=label)
    for dim, size in batches:
        yield _rebatched(arguments, dim, size, 2)


def _shortened(size: int, part: int) -> int:
    """Return about a part of a size: a multiple of what most models halve a few times."""
    return -(-size // (part * _MULTIPLE)) * _MULTIPLE


def _cut(item: torch.Tensor, wanted: Mapping[int, int]) -> torch.Tensor:
    for dim, size in enumerate(item.shape):
        # The beginning: a mask of later positions stays right.
        item = item.detach().narrow(dim, 0, wanted.get(size, size))
    return item.contiguous()


def size_variants(arguments: Arguments) -> Iterator[Variant]:
    """Yield the arguments with one more, or one less, along each dimension after the first two.

    The second dimension comes last: it is the channels of an image, but the length of a sequence.
    """
    tensors = [item for _, item in tensors_in(arguments)]
    rank = max((item.dim() for item in tensors), default=0)
    for dim in (*range(2, min(rank, 5)), 1):
        sizes = [item.shape[dim] for item in tensors if item.dim() > dim]
        for size in dict.fromkeys(sizes):
            if size > 1:
                yield _rebatched(arguments, dim, size, size + 1)
                yield _rebatched(arguments, dim, size, size - 1)


def scaled_variants(arguments: Arguments) -> Iterator[Variant]:
    """Yield the arguments much larger and much smaller, where clamps and epsilons show."""
    for factor in (16.0, 1 / 16):
        scaled = {
            id(item): item.detach() * factor
            for _, item in tensors_in(arguments)
            if item.is_floating_point()
        }
        if scaled:
            label = f"inputs times {factor:g}"
            yield Variant(label=label, arguments=replace_tensors(arguments, scaled), group=label)


def optional_variants(forward: Callable[..., object], arguments: Arguments) -> tuple[Variant, ...]:
    """Return the arguments with each optional input left out, and each boolean flag switched."""
    try:
        bound = inspect.signature(forward).bind(*arguments[0], **arguments[1])
    except (TypeError, ValueError):
        return ()
    variants: list[Variant] = []
    for name, parameter in inspect.signature(forward).parameters.items():
        default = parameter.default
        given = bound.arguments.get(name, default)
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        if default is None and given is not None:
            variants.append(_with(bound, name, None, f"{name} left out"))
        elif isinstance(default, bool) and isinstance(given, bool):
            variants.append(_with(bound, name, not given, f"{name}={not given}"))
    return tuple(variants)


def _with(bound: inspect.BoundArguments, name: str, value: object, label: str) -> Variant:
    signature = bound.signature
    named = dict(bound.arguments)
    named[name] = value
    changed = inspect.BoundArguments(signature, named)
    # Positional parameters before the changed one may be missing: give everything by its place.
    changed.apply_defaults()
    return Variant(label=label, arguments=(changed.args, dict(changed.kwargs)), group=label)


def _rebatched(arguments: Arguments, dim: int, size: int, wanted: int) -> Variant:
    resized: dict[int, torch.Tensor] = {}
    for _, item in tensors_in(arguments):
        if item.dim() > dim and item.shape[dim] == size:
            resized[id(item)] = _resize(item, dim, wanted)
    label = f"size {wanted} instead of {size} in dimension {dim}"
    group = f"dimension {dim}, size {size}"
    return Variant(label=label, arguments=replace_tensors(arguments, resized), group=group)


def _resize(item: torch.Tensor, dim: int, wanted: int) -> torch.Tensor:
    size = item.shape[dim]
    # Reversed, so that the new rows differ from the old ones at their places.
    index = torch.tensor([size - 1 - (place % size) for place in range(wanted)])
    return item.detach().index_select(dim, index)
