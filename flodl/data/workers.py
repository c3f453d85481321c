"""Reading in other processes, for data sets whose samples cost more Python than one thread can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import torch
from torch.utils import data as torch_data

from flodl.data.order import mix
from flodl.data.randomness import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flodl.data.collating import Names
    from flodl.data.reading import Bounds, Place, Reader
    from flodl.data.samplers import EpochOrder
    from flodl.data.sources import AbstractSource, Tensors

Job = tuple[int, list[int]]


@final
class _Jobs(torch_data.Dataset[Any]):
    """Makes whole batches; what it draws depends on (seed, epoch, position), whichever process it is in."""

    def __init__(self, source: AbstractSource, place: Place) -> None:
        self._source = source
        self._epoch, _, self._seed = place

    def __getitem__(self, job: Job) -> tuple[Tensors, Names | None]:
        position, indices = job
        try:
            with seeded(mix(self._seed, self._epoch, position)):
                tensors = self._source.fetch(torch.tensor(indices))
        except Exception as error:
            error.add_note(f"for batch {position} of epoch {self._epoch}")
            raise
        return tensors, self._source.own_names


@final
class _Positions(torch_data.Sampler[Any]):
    """What has to be read, in order."""

    def __init__(self, order: EpochOrder, bounds: Bounds, start: int) -> None:
        self._order = order
        self._bounds = bounds
        self._start = start

    def __iter__(self) -> Iterator[Job]:
        position = self._start
        while (found := self._bounds(position)) is not None:
            yield position, self._order.take(*found).tolist()
            position += 1


def by_workers(
    source: AbstractSource, order: EpochOrder, bounds: Bounds, place: Place, count: int
) -> Reader:
    """Read batches in so many processes; they start here and end with the reader."""
    loader = torch_data.DataLoader(
        _Jobs(source, place),
        batch_size=None,
        sampler=_Positions(order, bounds, place[1]),
        num_workers=count,
        collate_fn=_as_it_is,
    )
    with seeded(place[2]):  # torch draws a seed for its workers
        batches = iter(loader)
    return _unpacked(batches, source)


def _unpacked(batches: Iterator[Any], source: AbstractSource) -> Reader:
    for tensors, names in batches:
        source.own_names = names
        yield tensors


def _as_it_is(batch: Any) -> Any:
    return batch
