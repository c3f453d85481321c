"""A loader with one call per setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from flodl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from flodl.data.collating import Collate
    from flodl.data.loader import DataLoader


@final
class DataLoaderBuilder:
    """Collects the settings of a loader; `DataLoader` says what each of them means.

    Example:
        >>> import torch
        >>> from flodl import DataLoader
        >>> loader = DataLoader.builder([torch.arange(6)]).batch_size(3).shuffle(False).build()
        >>> [batch[0].tolist() for batch in loader.epoch(0)]
        [[0, 1, 2], [3, 4, 5]]
    """

    def __init__(self, loader: type[DataLoader], dataset: Any) -> None:
        self._loader = loader
        self._dataset = dataset
        self._batch_size: int | None = None
        self._settings: dict[str, Any] = {}

    def batch_size(self, samples: int) -> DataLoaderBuilder:
        """Set the number of samples per batch; there is no default."""
        self._batch_size = samples
        return self

    def names(self, names: Sequence[str]) -> DataLoaderBuilder:
        """Name the parts of a batch."""
        return self._with(names=tuple(names))

    def shuffle(self, wanted: bool = True) -> DataLoaderBuilder:
        """Choose between a new order per epoch and that of the data set."""
        return self._with(shuffle=wanted)

    def seed(self, seed: int) -> DataLoaderBuilder:
        """Name the order."""
        return self._with(seed=seed)

    def sampler(self, sampler: Any) -> DataLoaderBuilder:
        """Use a custom order."""
        return self._with(sampler=sampler)

    def drop_last(self, wanted: bool = True) -> DataLoaderBuilder:
        """Choose whether a last batch that is not full is left out."""
        return self._with(drop_last=wanted)

    def device(self, device: torch.device | str) -> DataLoaderBuilder:
        """Choose where the batches shall be."""
        return self._with(device=device)

    def streaming(self) -> DataLoaderBuilder:
        """Read batch by batch, even if the data set fits into memory."""
        return self._with(mode="streaming")

    def resident(self) -> DataLoaderBuilder:
        """Keep the whole data set on the device."""
        return self._with(mode="resident")

    def prefetch(self, depth: int) -> DataLoaderBuilder:
        """Read so many batches ahead, and never change that."""
        return self._with(prefetch=depth)

    def workers(self, count: int) -> DataLoaderBuilder:
        """Read in so many processes when streaming."""
        return self._with(workers=count)

    def vram_max_usage(self, share: float) -> DataLoaderBuilder:
        """Set the share of the device's memory that may be in use."""
        return self._with(vram_max_usage=share)

    def collate(self, collate: Collate) -> DataLoaderBuilder:
        """Make batches of lists of samples in one's own way."""
        return self._with(collate=collate)

    def build(self) -> DataLoader:
        """Return the loader.

        Raises:
            DataError: the batch size is missing, or what `DataLoader` raises.
        """
        if self._batch_size is None:
            raise DataError("the batch size is missing: call .batch_size(32) before .build()")
        return self._loader(self._dataset, self._batch_size, **self._settings)

    def _with(self, **settings: Any) -> DataLoaderBuilder:
        self._settings.update(settings)
        return self
