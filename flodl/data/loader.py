"""`DataLoader`: batches of any data set, in an order that is a function of (seed, epoch, position)."""

from __future__ import annotations

import logging
import weakref
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import torch

from flodl import log
from flodl.data import memory, reading, resident
from flodl.data.arguments import (
    chosen_sampler,
    require_a_batch,
    require_at_least,
    require_indices,
    require_mode,
    require_share,
)
from flodl.data.builder import DataLoaderBuilder
from flodl.data.choosing import Choice, Mode, choose
from flodl.data.collating import Collate, Names, checked_names
from flodl.data.iterators import AbstractBatches, DirectBatches, ResidentBatches, StreamedBatches
from flodl.data.order import mix
from flodl.data.randomness import seeded
from flodl.data.samplers import EpochOrder
from flodl.data.sources import AbstractSource, StreamSource, source_of
from flodl.data.transfer import Transfer
from flodl.data.workers import by_workers
from flodl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flodl.data.batch import Batch
    from flodl.data.protocols import Sampler
    from flodl.data.sources import Tensors

_LOG = logging.getLogger("flodl.data")


@final
class DataLoader:
    """Batches of tensors, any `torch` data set, any iterable, a `DataSet` or a `BatchDataSet`.

    The content of batch `k` of epoch `n` depends only on (seed, n, k): not on where the data
    lie, how far they are read ahead, or which batches were read before. So `epoch(n, start=k)`
    continues an interrupted epoch at once, and needs no state.

    Example:
        >>> import torch
        >>> from flodl import DataLoader
        >>> x, y = torch.arange(12.0).reshape(6, 2), torch.arange(6)
        >>> loader = DataLoader([x, y], batch_size=2, names=["input", "label"], shuffle=False)
        >>> [batch["label"].tolist() for batch in loader.epoch(0)]
        [[0, 1], [2, 3], [4, 5]]
        >>> [batch["label"].tolist() for batch in loader.epoch(0, start=2)]
        [[4, 5]]
        >>> len(loader), loader.mode
        (3, 'resident')
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        *,
        names: Sequence[str] | None = None,
        shuffle: bool | None = None,
        seed: int = 42,
        sampler: Any = None,
        drop_last: bool = True,
        device: torch.device | str = "cpu",
        mode: Mode = "auto",
        prefetch: int | None = None,
        workers: int = 0,
        vram_max_usage: float = 0.9,
        collate: Collate | None = None,
    ) -> None:
        """Look at the data set; nothing is read before the first epoch.

        Args:
            dataset: tensors or arrays (or a mapping) with the samples in the first dimension, a torch
                `Dataset` or `IterableDataset`, a `DataSet`, a `BatchDataSet`, a list of samples, or
                any iterable of samples.
            batch_size: samples per batch, at least 1.
            names: a name per part of a batch; without them those of the data set, or "0", "1", ...
            shuffle: a new order per epoch; yes by default, except for what can only be read in order.
            seed: names the order, together with the epoch.
            sampler: a `Sampler` or a sampler of torch in place of `shuffle`.
            drop_last: leave out a last batch that is not full.
            device: where the batches shall be.
            mode: "resident" keeps the whole set on the device, "streaming" reads it batch by batch,
                "auto" keeps it if it stays the same and fits.
            prefetch: batches to read ahead when streaming, 0 for none; by default as many as there
                is room for on a GPU, and 2 on the CPU.
            workers: processes that read when streaming; without them a thread does, which is enough
                unless a sample costs much Python.
            vram_max_usage: the share of the device's memory that may be in use, above 0 and at most 1.
            collate: makes tensors (one, several, or by name) of a list of samples.

        Raises:
            DataError: the data set is empty or none at all, or the arguments contradict each other.
        """
        require_at_least(1, "batch_size", batch_size)
        require_at_least(0, "prefetch", prefetch or 0)
        require_at_least(0, "workers", workers)
        self.dataset = dataset
        self.batch_size = batch_size
        self.seed = seed
        self.drop_last = drop_last
        self.device = torch.empty(0, device=device).device  # with its index
        self._source = source_of(dataset, collate)
        self.sampler = chosen_sampler(self._source, sampler, shuffle, seed)
        self._wish: Mode = require_mode(mode)
        self._names = names
        self._prefetch = prefetch
        self._workers = workers
        self._most_usage = require_share("vram_max_usage", vram_max_usage)
        self._transfer = Transfer(self.device)
        self._check()

    _choice: Choice | None = None
    _kept: Tensors | None = None
    _current: weakref.ref[AbstractBatches] | None = None
    _places: tuple[int, Callable[[int], Batch]] | None = None
    _epoch = 0
    _start = 0

    @classmethod
    def builder(cls, dataset: Any) -> DataLoaderBuilder:
        """Return a builder, for those who prefer one call per setting."""
        return DataLoaderBuilder(cls, dataset)

    def _check(self) -> None:
        tensors = None if isinstance(self._source, StreamSource) else self._source.tensors
        if tensors is not None:
            self._named(len(tensors))
        require_indices(self._source, self._wish, self._workers)
        if self.sampler is not None:
            require_a_batch(len(self.sampler), self.batch_size, len(self))

    # ---- size and place -------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        total = self._source.length if self.sampler is None else len(self.sampler)
        if total is None:
            raise TypeError(f"the number of samples in {self._source.label} is unknown")
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)

    @property
    def mode(self) -> str:
        """The place of the data set from the first epoch on: "resident" or "streaming"."""
        return "resident" if self._chosen().resident else "streaming"

    @property
    def decision(self) -> str:
        """The mode and the reason for it, in one line."""
        return self._chosen().why

    @property
    def in_background(self) -> bool:
        """Whether samples are made outside the requesting thread: giving up a wait then leaves no trace."""
        if isinstance(self._source, StreamSource):
            return False
        chosen = self._chosen()
        return (
            chosen.resident or self._workers > 0 or not (chosen.draws or self.prefetch_depth == 0)
        )

    def on(self, device: torch.device | str) -> DataLoader:
        """Return this loader for a device: itself, or one with the same samples in the same order.

        Args:
            device: where the batches shall be.
        """
        target = torch.empty(0, device=device).device
        if target == self.device:
            return self
        twin = copy(self)
        twin.device, twin._transfer, twin._places = target, Transfer(target), None
        return twin

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the batches, as plain values."""
        return {
            "samples": self._source.length if self.sampler is None else len(self.sampler),
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "sampler": "none" if self.sampler is None else type(self.sampler).__name__,
            "seed": self.seed,
        }

    def _chosen(self) -> Choice:
        if self._choice is None:
            self._choice = choose(self._source, self._wish, self.device, self._most_usage)
            log.verbose("data: %s", self._choice.why)
        return self._choice

    # ---- batches --------------------------------------------------------------------------------

    def epoch(self, number: int, start: int = 0) -> AbstractBatches:
        """Return the batches of an epoch.

        Args:
            number: which epoch, from 0 on.
            start: how many batches to leave out, because they have been used already.

        Raises:
            DataError: there is no such position.
        """
        if number < 0 or start < 0 or (self.sampler is not None and start > len(self)):
            raise DataError(f"there is no batch {start} in epoch {number} of {len(self)} batches")
        log.trace("data: epoch %s of %s from batch %s", number, self._source.label, start)
        batches = self._begin(number, start)
        self._current = weakref.ref(batches)
        return batches

    def batch_at(self, number: int, position: int) -> Batch:
        """Return one batch of an epoch, read in this thread; `epoch` gives the same one at that place.

        Args:
            number: which epoch, from 0 on.
            position: which of its batches, from 0 on.

        Raises:
            DataError: there is no such batch, or the data can only be read from its beginning.

        Example:
            >>> import torch
            >>> from flodl import DataLoader
            >>> loader = DataLoader([torch.arange(6)], batch_size=2, shuffle=False)
            >>> loader.batch_at(0, 2)[0]
            tensor([4, 5])
        """
        source = self._source
        if isinstance(source, StreamSource):
            raise DataError(f"{source.label} can only be read from its beginning; use `epoch`")
        if number < 0 or self._bounds(position) is None or position < 0:
            raise DataError(f"there is no batch {position} in epoch {number} of {len(self)}")
        if self._places is None or self._places[0] != number:
            self._places = (number, self._reader_of_places(source, number))
        return self._places[1](position)

    def _reader_of_places(self, source: AbstractSource, number: int) -> Callable[[int], Batch]:
        """Return a function that reads the batch at a place of an epoch."""
        if self._chosen().resident:
            batches = self._begin(number, 0)

            def gather(position: int) -> Batch:
                batches.position = position
                return next(batches)

            if isinstance(batches, ResidentBatches):
                return gather
        order = EpochOrder(self._ordered(), number)

        def read(position: int) -> Batch:
            place = (number, position, self.seed)
            reader = reading.by_index(source, order, self._bounds, place)
            if self._chosen().draws:
                reader = reading.repeatable(reader, place)
            return next(DirectBatches(reader, self._transfer, position, self._named))

        return read

    def _begin(self, number: int, start: int) -> AbstractBatches:
        source = self._source
        if isinstance(source, StreamSource):
            return self._stream(source, number, start)
        if self._chosen().resident:
            kept = self._load(source)
            if kept is not None:
                order = EpochOrder(self._ordered(), number, self.device)
                return ResidentBatches(
                    kept,
                    order,
                    self._bounds,
                    start,
                    self._named,
                    lambda at: self._flee(number, at),
                )
        order = EpochOrder(self._ordered(), number)
        place = (number, start, self.seed)
        if self._workers > 0:
            worked = by_workers(source, order, self._bounds, place, self._workers)
            return self._ahead(worked, start, worked.close)
        reader = reading.by_index(source, order, self._bounds, place)
        if self._chosen().draws:
            return DirectBatches(
                reading.repeatable(reader, place), self._transfer, start, self._named
            )
        return self._ahead(reader, start)

    def _stream(self, source: StreamSource, number: int, start: int) -> AbstractBatches:
        reader = reading.in_sequence(
            source, self.batch_size, number, start, drop_last=self.drop_last
        )
        whole, draws = reading.watched(reader, (number, 0, self.seed))
        rest = reading.present(whole)
        if draws:
            return DirectBatches(rest, self._transfer, start, self._named)
        return self._ahead(rest, start)

    def _ahead(
        self, reader: reading.Reader, start: int, end: Callable[[], None] | None = None
    ) -> AbstractBatches:
        depth = self.prefetch_depth
        if depth == 0:
            return DirectBatches(reader, self._transfer, start, self._named)
        return StreamedBatches(reader, self._transfer, start, self._named, depth, end)

    def _bounds(self, position: int) -> tuple[int, int] | None:
        total = len(self._ordered())
        begin = position * self.batch_size
        end = begin + self.batch_size
        if end > total:
            if self.drop_last or begin >= total:
                return None
            end = total
        return begin, end

    def _ordered(self) -> Sampler:
        assert self.sampler is not None
        return self.sampler

    def _named(self, count: int) -> Names:
        return checked_names(self._names, count, self._source.own_names, self._source.label)

    # ---- memory ---------------------------------------------------------------------------------

    def _load(self, source: AbstractSource) -> Tensors | None:
        if self._kept is None:
            why = ""
            try:
                with seeded(mix(self.seed)):
                    self._kept = resident.load(source, self.device)
            except Exception as error:
                why = self._why_not(error, source.label)
                if not why:
                    raise
            if self._kept is None:
                self._give_up(why)
        return self._kept

    def _why_not(self, error: Exception, label: str) -> str:
        """Return the reason to stream instead, or nothing if the error is one to be raised."""
        if memory.is_out_of_memory(error):
            return f"{label} did not fit into the memory of {self.device}"
        # The batch with that sample will raise it again, with its place.
        return f"{label} cannot be read as a whole: {error}" if self._wish == "auto" else ""

    def _give_up(self, why: str) -> None:
        """Stream from now on, with the same sampler and seed."""
        self._choice = replace(self._chosen(), resident=False, why=f"streaming: {why}")
        self._kept = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        _LOG.warning("%s", self._choice.why)

    def _flee(self, number: int, position: int) -> AbstractBatches:
        self._give_up(f"there was no memory on {self.device} for a batch beside the data set")
        return self._begin(number, position)

    @property
    def prefetch_depth(self) -> int:
        """The number of batches that are read ahead when streaming."""
        if self._prefetch is not None:
            return self._prefetch
        size = self._chosen().sample_bytes * self.batch_size
        return memory.prefetch_depth(self.device, size, self._most_usage)

    def set_prefetch_depth(self, depth: int) -> None:
        """Read ahead so many batches, in the running epoch too, and never change that by itself.

        Raises:
            DataError: the depth is negative.
        """
        require_at_least(0, "prefetch", depth)
        self._prefetch = depth
        self._resize(depth)

    def auto_resize(self) -> int:
        """Choose the depth again for the memory there is now, in the running epoch too; return it."""
        self._prefetch = None
        depth = self.prefetch_depth
        self._resize(depth)
        return depth

    def _resize(self, depth: int) -> None:
        running = None if self._current is None else self._current()
        if running is not None:
            running.resize(max(1, depth))

    # ---- as a plain iterable --------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        """Return the batches of the next epoch: the first `for` loop reads epoch 0, the second epoch 1."""
        number, start = self._epoch, self._start
        self._epoch, self._start = number + 1, 0
        return self.epoch(number, start)

    def state_dict(self) -> dict[str, int]:
        """Return the position of the plain iteration: three numbers, and two that must not change."""
        running = None if self._current is None else self._current()
        at = (self._epoch, self._start)
        if running is not None and self._epoch > 0 and not running.finished:
            at = (self._epoch - 1, running.position)
        return {
            "seed": self.seed,
            "batch_size": self.batch_size,
            "epoch": at[0],
            "position": at[1],
        }

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next `for` loop continue where another left off.

        Raises:
            DataError: seed or batch size differ, so that the position means something else.
        """
        for name, mine in (("seed", self.seed), ("batch_size", self.batch_size)):
            if state[name] != mine:
                raise DataError(
                    f"the position was saved with {name} {state[name]}; here it is {mine}"
                )
        self._epoch, self._start = state["epoch"], state["position"]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy; the copy decides again where the data are."""
        left = ("_choice", "_kept", "_current", "_transfer")
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._transfer = Transfer(self.device)

    def __repr__(self) -> str:
        count = "?" if self._source.length is None else self._source.length
        return f"DataLoader({self._source.label}, {count} samples, batch_size={self.batch_size})"
