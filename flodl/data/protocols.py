"""Protocols of data sets and samplers; any object of that shape will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch

Parts = Sequence[torch.Tensor] | Mapping[str, torch.Tensor]


@runtime_checkable
class DataSet(Protocol):
    """Samples by index. The same index gives the same tensors at any time: a loader may keep them.

    Example:
        >>> import torch
        >>> from flodl import DataLoader, DataSet
        >>> class Squares:
        ...     def __len__(self) -> int:
        ...         return 8
        ...     def get(self, index: int) -> list[torch.Tensor]:
        ...         return [torch.tensor(index), torch.tensor(index**2)]
        >>> isinstance(Squares(), DataSet)
        True
        >>> next(DataLoader(Squares(), 4, shuffle=False).epoch(0))[1].tolist()
        [0, 1, 4, 9]
    """

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def get(self, index: int) -> Parts:
        """Return the tensors of one sample, without a batch dimension."""
        ...


@runtime_checkable
class BatchDataSet(Protocol):
    """Samples by many indices at once, which is how tables, arrays and databases are read fast.

    Example:
        >>> import torch
        >>> from flodl import BatchDataSet, DataLoader
        >>> class Squares:
        ...     def __len__(self) -> int:
        ...         return 8
        ...     def get_batch(self, indices: list[int]) -> list[torch.Tensor]:
        ...         return [torch.tensor(indices) ** 2]
        >>> isinstance(Squares(), BatchDataSet)
        True
        >>> next(DataLoader(Squares(), 4, shuffle=False).epoch(0))[0].tolist()
        [0, 1, 4, 9]
    """

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def get_batch(self, indices: list[int]) -> Parts:
        """Return tensors whose first dimension is as long as `indices`, and in its order."""
        ...


@runtime_checkable
class Sampler(Protocol):
    """The samples of an epoch in their order; it must be a function of the epoch alone.

    Example:
        >>> from flodl import DataLoader, Sampler
        >>> import torch
        >>> class Backwards:
        ...     def __len__(self) -> int:
        ...         return 4
        ...     def indices(self, epoch: int) -> list[int]:
        ...         return [3, 2, 1, 0]
        >>> isinstance(Backwards(), Sampler)
        True
        >>> loader = DataLoader([torch.arange(4)], 2, sampler=Backwards())
        >>> [batch[0].tolist() for batch in loader.epoch(0)]
        [[3, 2], [1, 0]]
    """

    def __len__(self) -> int:
        """Return how many samples an epoch visits."""
        ...

    def indices(self, epoch: int) -> Sequence[int] | torch.Tensor:
        """Return the indices of the samples of an epoch, in order."""
        ...
