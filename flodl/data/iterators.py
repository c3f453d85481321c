"""The batches of one epoch: gathered on the device, read by a thread, or read on demand."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, final

import torch

from flodl.data.batch import Batch
from flodl.data.channel import Channel
from flodl.data.memory import is_out_of_memory
from flodl.data.transfer import Placed, Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flodl.data.collating import Names
    from flodl.data.reading import Reader
    from flodl.data.samplers import EpochOrder
    from flodl.data.sources import Tensors

_PATIENCE: Final = 5.0


class AbstractBatches(ABC):
    """An iterator over the batches of one epoch.

    Attributes:
        position: the number of batches returned, counted from the beginning of the epoch.
        finished: whether the last batch has been returned and another one requested.
    """

    position: int
    finished: bool = False

    def __init__(self, position: int, names: Callable[[int], Names]) -> None:
        self.position = position
        self._names_for = names
        self._names: Names | None = None

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        tensors = self._next()
        if tensors is None:
            self.finished = True
            self.close()
            raise StopIteration
        if self._names is None:
            self._names = self._names_for(len(tensors))
        self.position += 1
        return Batch(tensors, self._names)

    @abstractmethod
    def _next(self) -> Tensors | None:
        """Return the tensors of the next batch, nothing after the last."""

    def close(self) -> None:  # noqa: B027
        """End background work and drop batches that were not returned."""

    def resize(self, depth: int) -> None:  # noqa: B027
        """Change how many batches are read ahead."""


@final
class ResidentBatches(AbstractBatches):
    """One gather per part and batch; falls back if even that does not fit into memory."""

    def __init__(
        self,
        tensors: Tensors,
        order: EpochOrder,
        bounds: Callable[[int], tuple[int, int] | None],
        start: int,
        names: Callable[[int], Names],
        fall_back: Callable[[int], AbstractBatches],
    ) -> None:
        super().__init__(start, names)
        self._tensors = tensors
        self._order = order
        self._bounds = bounds
        self._fall_back = fall_back
        self._instead: AbstractBatches | None = None

    def _next(self) -> Tensors | None:
        if self._instead is not None:
            return self._instead._next()
        bounds = self._bounds(self.position)
        if bounds is None:
            return None
        try:
            indices = self._order.take(*bounds)
            return tuple([each.index_select(0, indices) for each in self._tensors])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        self._tensors = ()
        self._instead = self._fall_back(self.position)
        return self._instead._next()

    def close(self) -> None:
        """End what was begun after running out of memory."""
        self._bounds = _nothing
        if self._instead is not None:
            self._instead.close()


def _nothing(_position: int) -> None:
    return None


@final
class DirectBatches(AbstractBatches):
    """Reads each batch when it is requested, in the requesting thread."""

    def __init__(
        self, reader: Reader, transfer: Transfer, start: int, names: Callable[[int], Names]
    ) -> None:
        super().__init__(start, names)
        self._reader: Reader | None = reader
        self._transfer = transfer

    def _next(self) -> Tensors | None:
        tensors = None if self._reader is None else next(self._reader, None)
        return None if tensors is None else self._transfer(tensors).arrive()

    def close(self) -> None:
        """Read no further."""
        self._reader = None


@final
class StreamedBatches(AbstractBatches):
    """Read ahead by a thread that ends when this iterator is closed or forgotten."""

    def __init__(
        self,
        reader: Reader,
        transfer: Transfer,
        start: int,
        names: Callable[[int], Names],
        depth: int,
        end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(start, names)
        self._channel: Channel[Placed] = Channel(depth)
        # The thread must not know this iterator, or it would keep it alive for ever.
        thread = threading.Thread(
            target=_read_ahead, args=(reader, transfer, self._channel), daemon=True
        )
        thread.name = "flodl-data"
        self._thread = thread
        self._end_reader = end
        self._end = weakref.finalize(self, _end, self._channel, thread, end)
        thread.start()

    def _next(self) -> Tensors | None:
        try:
            placed = self._channel.get()
        except BaseException:
            self.close()
            raise
        return None if placed is None else placed.arrive()

    def resize(self, depth: int) -> None:
        """Change how many batches are read ahead, from now on."""
        self._channel.resize(depth)

    def close(self) -> None:
        """End the thread and the processes that read; a read that has begun is not waited for."""
        self._channel.close()
        if self._end_reader is not None:
            self._end_reader()


def _end(
    channel: Channel[Placed], thread: threading.Thread, end: Callable[[], None] | None
) -> None:
    channel.close()
    if end is not None:
        end()
    if thread is not threading.current_thread() and thread.is_alive():
        # At the end of the program a thread inside torch would crash it.
        thread.join(_PATIENCE)


def _read_ahead(reader: Reader, transfer: Transfer, channel: Channel[Placed]) -> None:
    try:
        for tensors in reader:
            placed = _placed(tensors, transfer, channel)
            if placed is None or not channel.put(placed):
                return
    except BaseException as error:
        channel.finish(error)  # raised again in the thread that requests batches
    else:
        channel.finish()


def _placed(tensors: Tensors, transfer: Transfer, channel: Channel[Placed]) -> Placed | None:
    """Begin the copy; when the device is full, wait until nothing is read ahead and try once more."""
    try:
        return transfer(tensors)
    except torch.OutOfMemoryError:
        channel.resize(1)
        if not channel.drained():
            return None
        torch.cuda.empty_cache()
        return transfer(tensors)
