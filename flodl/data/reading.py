"""Readers: generators that yield the tensors of an epoch, batch by batch, from any position on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from flodl.data.order import mix
from flodl.data.randomness import seeded, state, unchanged
from flodl.errors import DataError

if TYPE_CHECKING:
    from flodl.data.samplers import EpochOrder
    from flodl.data.sources import AbstractSource, StreamSource, Tensors

Item = TypeVar("Item")
Reader = Iterator["Tensors"]
Bounds = Callable[[int], "tuple[int, int] | None"]
Place = tuple[int, int, int]  # (epoch, position, seed)


def by_index(source: AbstractSource, order: EpochOrder, bounds: Bounds, place: Place) -> Reader:
    """Read batches by index; `place` says where to begin."""
    epoch, position, _ = place
    while (found := bounds(position)) is not None:
        try:
            tensors = source.fetch(order.take(*found))
        except Exception as error:
            error.add_note(f"for batch {position} of epoch {epoch}")
            raise
        yield tensors
        position += 1


def in_sequence(
    source: StreamSource, batch_size: int, epoch: int, skip: int, *, drop_last: bool
) -> Iterator[Tensors | None]:
    """Read a stream from its beginning; for each of the first `skip` batches there comes nothing."""
    items = source.read(epoch)
    position = 0
    while True:
        try:
            some: list[Any] = list(islice(items, batch_size))
            if not some:
                _require(position > 0, source, epoch)
            if not some or (drop_last and len(some) < batch_size):
                return
            tensors = source.batch(some) if position >= skip else None
        except Exception as error:
            error.add_note(f"for batch {position} of epoch {epoch} of {source.label}")
            raise
        yield tensors
        position += 1


def present(reader: Iterator[Tensors | None]) -> Reader:
    """Leave out what was skipped."""
    return (tensors for tensors in reader if tensors is not None)


def _require(read_something: bool, source: StreamSource, epoch: int) -> None:
    if not read_something:
        raise DataError(
            f"{source.label} gave nothing in epoch {epoch}; an iterator can be read only once: give an "
            "object whose `__iter__` starts over"
        )


def repeatable(reader: Iterator[Item], place: Place) -> Iterator[Item]:
    """Make the random draws of a reader depend on (seed, epoch, position) and disturb no other generator."""
    epoch, position, seed = place
    while True:
        with seeded(mix(seed, epoch, position)):
            try:
                item = next(reader)
            except StopIteration:
                return
        yield item
        position += 1


def watched(reader: Iterator[Item], place: Place) -> tuple[Iterator[Item], bool]:
    """Return the reader and whether it draws random numbers; its first result has been read then."""
    epoch, position, seed = place
    with seeded(mix(seed, epoch, position)):
        before = state()
        first = list(islice(reader, 1))
        draws = not unchanged(before)
    rest = repeatable(reader, (epoch, position + 1, seed)) if draws else reader
    return chain(first, rest), draws
