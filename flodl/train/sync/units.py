"""Batches by epoch and position, read by the rank that trains them."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, final

import torch
from torch.utils.data import DataLoader as TorchLoader

from flodl.checkpoint.restore import random_state, set_random_state
from flodl.data.loader import DataLoader
from flodl.data.order import mix
from flodl.train.protocols import Batches, Source
from flodl.train.sources import ListSource, LoaderSource, TorchSource, moved


def seed_generators(*place: int) -> None:
    """Seed the generators of torch, Python and NumPy from a place, such as (seed, epoch, position)."""
    number = mix(*place)
    # `torch.manual_seed` notes the stack for devices that are not in use yet, which takes 1 ms.
    torch.default_generator.manual_seed(number >> 1)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(number >> 1)
    random.seed(number)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed(number & 0xFFFFFFFF)


class Units(Protocol):
    """The batches of a source, in any order.

    Attributes:
        decision: which rank reads what, in one line.
    """

    decision: str

    def begin(self, epoch: int, /) -> None:
        """Start an epoch; the generators have the same state on all ranks."""
        ...

    def ready(self, position: int, wanted: int, /) -> int:
        """Return how many of the wanted batches from a position on there are."""
        ...

    def read(self, position: int, /) -> Any:
        """Return the batch at a position that was said to be ready."""
        ...


def units_of(source: Source, device: torch.device) -> Units:
    """Return the batches of a source, read by place where the source allows that."""
    if isinstance(source, LoaderSource) and source.length() is not None:
        return LoaderUnits(source.loader)
    if isinstance(source, ListSource):
        return ListUnits(source.batches, device)
    if isinstance(source, TorchSource) and source.loader.batch_sampler is not None:
        return TorchUnits(source.loader, device)
    return SequentialUnits(source)


@final
class LoaderUnits:
    """The batches of a loader of flodl, which finds any place of any epoch."""

    decision = "each rank reads the batches that it trains"

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._epoch = 0

    def begin(self, epoch: int) -> None:
        """Start an epoch."""
        self._epoch = epoch

    def ready(self, position: int, wanted: int) -> int:
        """Return how many of the wanted batches there are."""
        return min(wanted, len(self._loader) - position)

    def read(self, position: int) -> Any:
        """Return the batch at a position."""
        return self._loader.batch_at(self._epoch, position)


@final
class ListUnits:
    """Batches in a list."""

    decision = "each rank reads the batches that it trains"

    def __init__(self, batches: Sequence[Any], device: torch.device) -> None:
        self._batches = batches
        self._device = device

    def begin(self, epoch: int) -> None:
        """Start an epoch; all are the same."""
        del epoch

    def ready(self, position: int, wanted: int) -> int:
        """Return how many of the wanted batches there are."""
        return min(wanted, len(self._batches) - position)

    def read(self, position: int) -> Any:
        """Return the batch at a position."""
        return moved(self._batches[position], self._device)


@final
class TorchUnits:
    """The batches of a map-style loader of torch: its order is listed at the beginning of an epoch.

    Attributes:
        decision: which rank reads what, in one line.
        order: the samples of each batch.
    """

    decision = "each rank reads the batches that it trains, without the workers of the loader"

    def __init__(self, loader: TorchLoader[Any], device: torch.device) -> None:
        self._loader = loader
        self._device = device
        self.order: list[Any] = []

    def begin(self, epoch: int) -> None:
        """List the samples of each batch of an epoch."""
        if isinstance(self._loader.sampler, torch.utils.data.DistributedSampler):
            self._loader.sampler.set_epoch(epoch)
        generator = vars(self._loader.sampler).get("generator")
        if isinstance(generator, torch.Generator):
            # A private generator would continue from epoch to epoch, and so not start in the middle.
            generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))
        self.order = list(self._loader.batch_sampler or ())

    def ready(self, position: int, wanted: int) -> int:
        """Return how many of the wanted batches there are."""
        return min(wanted, len(self.order) - position)

    def read(self, position: int) -> Any:
        """Return the batch at a position."""
        dataset: Any = self._loader.dataset
        indices = self.order[position]
        if "__getitems__" in dir(dataset):
            samples = dataset.__getitems__(indices)
        else:
            samples = [dataset[each] for each in indices]
        return moved(self._loader.collate_fn(samples), self._device)


@final
class SequentialUnits:
    """A source that is read from its beginning: every rank reads all, and keeps those of the window."""

    decision = "every rank reads all batches, because the data has no positions"

    def __init__(self, source: Source) -> None:
        self._source = source
        self._batches: Batches | None = None
        self._held: deque[Any] = deque()
        self._first = 0  # position of the first one that is held
        self._random: dict[str, Any] = {}

    def begin(self, epoch: int) -> None:
        """Start to read an epoch."""
        if self._batches is not None:
            self._batches.close()
        self._batches = self._source.epoch(epoch, 0)
        self._held, self._first = deque(), 0
        self._random = random_state()

    def ready(self, position: int, wanted: int) -> int:
        """Read on to the wanted batches, and forget those before."""
        assert self._batches is not None
        now = random_state()
        # What reading draws must not depend on the units that this rank trained in between.
        set_random_state(self._random)
        try:
            while self._first + len(self._held) < position + wanted:
                self._held.append(next(self._batches))
                while self._held and self._first < position:
                    self._held.popleft()
                    self._first += 1
        except StopIteration:
            pass
        self._random = random_state()
        set_random_state(now)
        while self._held and self._first < position:
            self._held.popleft()
            self._first += 1
        return min(wanted, max(0, self._first + len(self._held) - position))

    def read(self, position: int) -> Any:
        """Return a batch that is held."""
        return self._held[position - self._first]
