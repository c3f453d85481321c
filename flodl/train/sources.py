"""Any data as batches by epoch and position: loaders of flodl and torch, lists, iterables, functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset

from flodl.data.loader import DataLoader
from flodl.data.protocols import BatchDataSet, DataSet
from flodl.errors import TrainingError
from flodl.train.protocols import Batches, Source


def source_of(
    data: Any, *, batch_size: int | None, seed: int | None, device: torch.device
) -> Source:
    """Return a source for any kind of data.

    Args:
        data: a loader of flodl or torch, a data set, batches in a list or another iterable, or a
            function that gives the batches of an epoch.
        batch_size: samples per batch, for a data set.
        seed: the seed of the order, for a data set.
        device: where batches are wanted.

    Raises:
        TrainingError: there is no data, or it does not say how to make batches.
    """
    if data is None:
        raise TrainingError("there is no data: give a loader, a data set or a list of batches")
    if isinstance(data, DataLoader):
        return LoaderSource(data, device)
    if isinstance(data, TorchLoader):
        return TorchSource(data, device)
    if batch_size is not None:
        if seed is None:
            return LoaderSource(DataLoader(data, batch_size, device=device), device)
        return LoaderSource(DataLoader(data, batch_size, device=device, seed=seed), device)
    if isinstance(data, Dataset):
        raise TrainingError(
            f"{type(data).__name__} holds samples: say how many make a batch (batch_size)"
        )
    if isinstance(data, Sequence):
        return ListSource(data, device)
    if isinstance(data, Iterable):
        return IterableSource(data, device)
    if callable(data):
        return FunctionSource(data, device)
    raise TrainingError(f"{type(data).__name__} gives no batches: it cannot be iterated")


def evaluation_source_of(data: Any, *, batch_size: int | None, device: torch.device) -> Source:
    """Return a source for evaluation, which reads a data set as training does, but in its order.

    Args:
        data: as for `source_of`.
        batch_size: samples per batch of the training, if it is known.
        device: where batches are wanted.

    Raises:
        TrainingError: the data does not say how to make batches.
    """
    if batch_size is not None and _holds_samples(data):
        data = DataLoader(data, batch_size, device=device, shuffle=False, drop_last=False)
    return source_of(data, batch_size=None, seed=None, device=device)


def _holds_samples(data: Any) -> bool:
    """Return True for a data set: tensors by position or by name, or an object that gives samples."""
    if isinstance(data, Mapping):
        return True
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(each, Tensor) for each in data)
    return isinstance(data, Tensor | Dataset | DataSet | BatchDataSet)


def moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with all its tensors on a device; tables and lists keep their kind."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, tuple) and type(batch) is not tuple:
        return type(batch)(*(moved(each, device) for each in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(moved(each, device) for each in batch)
    if isinstance(batch, dict):
        return {name: moved(each, device) for name, each in batch.items()}
    return batch


@final
class _Plain:
    """An iterator of batches, moved to a device where that is not where they are born."""

    def __init__(self, batches: Iterator[Any], device: torch.device) -> None:
        self._batches = (
            batches if device.type == "cpu" else (moved(each, device) for each in batches)
        )

    def __iter__(self) -> Iterator[Any]:
        return self._batches

    def __next__(self) -> Any:
        return next(self._batches)

    def close(self) -> None:
        """Nothing runs in the background that does not end by itself."""


@final
class LoaderSource:
    """A loader of flodl: any epoch, from any position, at once."""

    replays = False

    def __init__(self, loader: DataLoader, device: torch.device) -> None:
        self.loader = loader.on(device)
        self.abrupt = self.loader.in_background

    def epoch(self, number: int, start: int = 0) -> Batches:
        """Return the batches of an epoch from a position on."""
        return self.loader.epoch(number, start)

    def length(self) -> int | None:
        """Return the number of batches, if it is known."""
        return _length(self.loader)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the order."""
        return {"kind": "DataLoader", "batches": self.length(), **self.loader.identity()}


@final
class TorchSource:
    """A loader of torch: its order comes from torch's random numbers at the beginning of an epoch."""

    replays = True

    def __init__(self, loader: TorchLoader[Any], device: torch.device) -> None:
        self.loader = loader
        self._device = device
        # With workers, no sample is made in this process.
        self.abrupt = loader.num_workers > 0

    def epoch(self, number: int, start: int = 0) -> Batches:
        """Begin an epoch and read the batches before the position again."""
        sampler = self.loader.sampler
        if isinstance(sampler, torch.utils.data.DistributedSampler):
            sampler.set_epoch(number)
        return _Plain(_after(iter(self.loader), start), self._device)

    def length(self) -> int | None:
        """Return the number of batches, if it is known."""
        return _length(self.loader)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the order."""
        return {"kind": "torch DataLoader", "batches": self.length()}


@final
class ListSource:
    """Batches in a list: every epoch is the same."""

    replays = False
    abrupt = True

    def __init__(self, batches: Sequence[Any], device: torch.device) -> None:
        if not batches:
            raise TrainingError("the list of batches is empty")
        self.batches = batches
        self._device = device

    def epoch(self, number: int, start: int = 0) -> Batches:
        """Return the batches from a position on."""
        del number
        return _Plain(iter(self.batches[start:] if start else self.batches), self._device)

    def length(self) -> int | None:
        """Return the number of batches."""
        return len(self.batches)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the order."""
        return {"kind": "list", "batches": len(self.batches)}


@final
class IterableSource:
    """Anything that can be iterated once per epoch."""

    replays = True
    abrupt = False

    def __init__(self, batches: Iterable[Any], device: torch.device) -> None:
        self._batches = batches
        self._device = device

    def epoch(self, number: int, start: int = 0) -> Batches:
        """Start again and skip the batches before the position.

        Raises:
            TrainingError: it can be iterated once only.
        """
        if number > 0 and iter(self._batches) is self._batches:
            raise TrainingError(
                f"the data is a {type(self._batches).__name__}, which gives its batches only once; "
                "give a list, a loader, or an object whose `__iter__` starts over"
            )
        return _Plain(_after(iter(self._batches), start), self._device)

    def length(self) -> int | None:
        """Return the number of batches, if it is known."""
        return _length(self._batches)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the order."""
        return {"kind": type(self._batches).__name__, "batches": self.length()}


@final
class FunctionSource:
    """A function that is called for every epoch and gives its batches."""

    replays = True
    abrupt = False

    def __init__(self, make: Callable[[], Iterable[Any]], device: torch.device) -> None:
        self._make = make
        self._device = device

    def epoch(self, number: int, start: int = 0) -> Batches:
        """Call the function and read the batches before the position again."""
        del number
        return _Plain(_after(iter(self._make()), start), self._device)

    def length(self) -> int | None:
        """Nobody knows before the function is called."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return nothing: the order is unknown."""
        return {"kind": "function", "batches": None}


def _after(batches: Iterator[Any], start: int) -> Iterator[Any]:
    """Read and forget the first batches, now, while the random numbers are those of then."""
    for _ in islice(batches, start):
        pass
    return batches


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except TypeError:
        return None
