"""Orders of an epoch: random, sequential, a program's own, or a sampler of torch made repeatable."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, Final, final

import torch
from torch.utils import data as torch_data

from flodl.data.order import RANKED_UP_TO, mix, permuted
from flodl.data.protocols import Sampler
from flodl.data.randomness import seeded
from flodl.errors import DataError

# Entries of a large permutation that are computed together: about two milliseconds of work.
_WINDOW: Final = 1 << 14


@final
class RandomSampler:
    """Visits every sample once per epoch, in an order that depends on (n, seed, epoch) and nothing else.

    Any position of the order is found without computing those before it.

    Example:
        >>> from flodl import RandomSampler
        >>> sampler = RandomSampler(10**9, seed=7)
        >>> sampler.slice(0, 500_000_000, 500_000_003).shape
        torch.Size([3])
        >>> RandomSampler(5, seed=7).indices(0).sort().values.tolist()
        [0, 1, 2, 3, 4]
    """

    def __init__(self, n: int, seed: int = 42) -> None:
        self.seed = seed
        self._n = n

    def __len__(self) -> int:
        return self._n

    def indices(self, epoch: int) -> torch.Tensor:
        """Return the order of a whole epoch."""
        return self.slice(epoch, 0, self._n)

    def slice(self, epoch: int, start: int, stop: int) -> torch.Tensor:
        """Return a part of the order of an epoch."""
        return permuted(self._n, mix(self.seed, epoch), start, stop)


@final
class SequentialSampler:
    """Visits every sample once per epoch, in the order of the data set.

    Example:
        >>> from flodl import SequentialSampler
        >>> SequentialSampler(3).indices(0).tolist()
        [0, 1, 2]
    """

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def indices(self, epoch: int) -> torch.Tensor:
        """Return the order of a whole epoch."""
        return self.slice(epoch, 0, self._n)

    def slice(self, epoch: int, start: int, stop: int) -> torch.Tensor:
        """Return a part of the order of an epoch."""
        del epoch
        return torch.arange(start, stop)


@final
class _TorchSampler:
    """A sampler of torch; its draws depend on (seed, epoch), so that an epoch can be repeated."""

    def __init__(self, sampler: Any, seed: int) -> None:
        self._sampler = sampler
        self._seed = seed

    def __len__(self) -> int:
        return len(self._sampler)

    def indices(self, epoch: int) -> list[int]:
        """Iterate the sampler once."""
        # A private generator would continue from epoch to epoch: start it afresh for each.
        generator = vars(self._sampler).get("generator")
        if isinstance(generator, torch.Generator):
            generator.manual_seed(mix(self._seed, epoch) >> 1)
        elif "set_epoch" in dir(self._sampler):
            self._sampler.set_epoch(epoch)
        with seeded(mix(self._seed, epoch)):
            return list(self._sampler)


def as_sampler(given: Any, seed: int) -> Sampler:
    """Return a sampler for what was given: a Sampler, a sampler of torch, or a sequence of indices.

    Raises:
        DataError: it is none of these.
    """
    # Some samplers of torch have `indices` as well, but as a list.
    if isinstance(given, Sampler) and not isinstance(given, torch_data.Sampler):
        return given
    if isinstance(given, Sized) and isinstance(given, Iterable):
        return _TorchSampler(given, seed)
    message = (
        f"{type(given).__name__} is not a sampler: it needs `__len__` and either `indices(epoch)` or "
        "`__iter__`"
    )
    raise DataError(message)


@final
class EpochOrder:
    """The order of one epoch, computed in windows as it is used, for gathers on a device."""

    def __init__(self, sampler: Sampler, epoch: int, device: torch.device | None = None) -> None:
        self._sampler = sampler
        self._epoch = epoch
        self._first = 0
        self._window = torch.empty(0, dtype=torch.int64)
        self._device = device

    def take(self, start: int, stop: int) -> torch.Tensor:
        """Return the indices of positions `start` to `stop - 1`."""
        if start < self._first or stop > self._first + len(self._window):
            self._first, window = self._load(start, stop)
            self._window = window if self._device is None else window.to(self._device)
        return self._window[start - self._first : stop - self._first]

    def _load(self, start: int, stop: int) -> tuple[int, torch.Tensor]:
        total = len(self._sampler)
        if isinstance(self._sampler, RandomSampler | SequentialSampler):
            if total <= RANKED_UP_TO:
                return 0, self._sampler.slice(self._epoch, 0, total)
            end = min(max(stop, start + _WINDOW), total)
            return start, self._sampler.slice(self._epoch, start, end)
        found = torch.as_tensor(self._sampler.indices(self._epoch), dtype=torch.int64)
        if len(found) != total:
            message = (
                f"{type(self._sampler).__name__}.indices({self._epoch}) gave {len(found)} indices; its "
                f"length is {total}"
            )
            raise DataError(message)
        return 0, found
