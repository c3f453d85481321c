"""Batches that worker processes of a torch loader make ahead, for a rank that reads a part of the epoch.

Example: a rank has the stretch 500 to 999 of an epoch, and two workers that are two batches ahead each.

    expect [(500, 1000)]      the workers get 500, 501, 502, 503
    read 500, 501, 502        each in order; for each the workers get one more
    expect [(300, 650)]       cut again: 503 to 506 are under way; they are part of it and stay
    read 300                  503 to 506 arrive first, and are held until they are read

Stretches are long, so workers are rarely ahead in vain. Batches that no longer belong to the rank are dropped
as they arrive. A torch loader ends its workers when they have nothing left to do; the next read begins new
ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, final

import torch
from torch.utils.data import DataLoader as TorchLoader

from flodl.distributed.unit_ledger import Units as Ranges
from flodl.train.sources import moved
from flodl.train.sync.units import TorchUnits


@final
class AheadUnits:
    """The batches of a map-style loader of torch, made by its workers in the order in which they are read.

    Args:
        loader: the loader; it has workers.
        device: where batches go.

    Attributes:
        decision: which rank reads what, in one line.
    """

    decision = (
        "each rank reads the batches that it trains, made ahead by the workers of its loader"
    )

    def __init__(self, loader: TorchLoader[Any], device: torch.device) -> None:
        self._plain = TorchUnits(loader, device)
        self._feed = _Feed()
        self._device = device
        self._loader: TorchLoader[Any] = TorchLoader(
            loader.dataset,
            batch_sampler=self._feed,
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
        )
        self._batches: Iterator[Any] | None = None
        self._held: dict[int, Any] = {}

    def begin(self, epoch: int) -> None:
        """List the samples of each batch of an epoch."""
        self._plain.begin(epoch)
        self._stop()
        self._feed.begin(self._plain.order)

    def ready(self, position: int, wanted: int) -> int:
        """Return how many of the wanted batches there are."""
        return self._plain.ready(position, wanted)

    def expect(self, positions: Sequence[Ranges]) -> None:
        """Let workers make these batches next, given as ranges in the order in which they are read."""
        self._feed.expect(positions, self._held)
        self._held = {place: each for place, each in self._held.items() if place in self._feed}

    def read(self, position: int) -> Any:
        """Return a batch that was said to be expected."""
        while position not in self._held:
            batch = self._next()
            place = self._feed.under_way.popleft()
            if place in self._feed:
                self._held[place] = batch
        return moved(self._held.pop(position), self._device)

    def _next(self) -> Any:
        if self._batches is None or not self._feed.under_way:
            # Workers that ran out of work are gone: an iterator of torch cannot be fed again.
            self._stop()
            self._batches = iter(self._loader)
        return next(self._batches)

    def _stop(self) -> None:
        self._batches = None
        self._feed.under_way.clear()


@final
class _Feed:
    """The order in which workers make batches, as the sampler of a loader; it may be changed on the way.

    Attributes:
        under_way: positions of the batches that were given to workers and have not arrived.
    """

    def __init__(self) -> None:
        self.under_way: deque[int] = deque()
        self._order: Sequence[Any] = ()
        self._wanted: Sequence[Ranges] = ()
        self._rest: Iterator[int] = iter(())

    def begin(self, order: Sequence[Any]) -> None:
        """Begin an epoch, of which nothing is expected yet."""
        self._order, self._wanted, self._rest = order, (), iter(())

    def expect(self, positions: Sequence[Ranges], held: dict[int, Any]) -> None:
        """Give out these positions next, without those that are held or under way."""
        known = {*held, *self.under_way}
        self._wanted = list(positions)
        self._rest = (
            place
            for start, stop in self._wanted
            for place in range(start, stop)
            if place not in known
        )

    def __contains__(self, position: int) -> bool:
        return any(start <= position < stop for start, stop in self._wanted)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        position = next(self._rest)
        self.under_way.append(position)
        return self._order[position]
