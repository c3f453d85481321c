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
    from flodl.data.reading import Bounds, Place
    from flodl.data.samplers import EpochOrder
    from flodl.data.sources import AbstractSource, Tensors

Job = tuple[int, list[int]]


@final
class _Jobs(torch_data.Dataset[Any]):
    """Makes whole batches; its random draws depend on (seed, epoch, position), whichever process it is in."""

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
    """The requests to read, in order."""

    def __init__(self, order: EpochOrder, bounds: Bounds, start: int) -> None:
        self._order = order
        self._bounds = bounds
        self._start = start

    def __iter__(self) -> Iterator[Job]:
        position = self._start
        while (found := self._bounds(position)) is not None:
            yield position, self._order.take(*found).tolist()
            position += 1


@final
class WorkerReader:
    """Reads batches in other processes.

    Closing ends those processes at once, in the middle of a sample that takes long too: the thread that
    waits for one would otherwise keep them alive.
    """

    def __init__(self, batches: Any, source: AbstractSource) -> None:
        self._batches = batches
        self._source = source

    def __iter__(self) -> Iterator[Tensors]:
        """Return the reader."""
        return self

    def __next__(self) -> Tensors:
        """Return the next batch."""
        tensors, self._source.own_names = next(self._batches)
        found: Tensors = tensors
        return found

    def close(self) -> None:
        """End the processes."""
        batches = self._batches
        if batches._worker_pids_set:
            # torch reports a worker that ends by a signal, unless it has forgotten it before.
            torch._C._remove_worker_pids(id(batches))
            batches._worker_pids_set = False
        for each in batches._workers:
            each.terminate()


def by_workers(
    source: AbstractSource, order: EpochOrder, bounds: Bounds, place: Place, count: int
) -> WorkerReader:
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
    return WorkerReader(batches, source)


def _as_it_is(batch: Any) -> Any:
    return batch
