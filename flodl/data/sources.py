"""Every kind of data set behind one face: tensors by index, or in the order in which they come."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any, final

import torch
from torch.utils import data as torch_data

from flodl.data.collating import Collate, Names, stack, tensors_of
from flodl.data.protocols import BatchDataSet, DataSet
from flodl.errors import DataError

Tensors = tuple[torch.Tensor, ...]
_SHOWN = 8
_MOST_PARTS = 16


class AbstractSource(ABC):
    """A data set whose samples are found by index.

    Attributes:
        label: the name of the data set in messages.
        length: the number of samples.
        own_names: names of the parts, if the data set has some.
    """

    label: str
    length: int
    own_names: Names | None = None

    @abstractmethod
    def fetch(self, indices: torch.Tensor) -> Tensors:
        """Return the tensors of some samples, in the order of the indices."""

    @property
    def tensors(self) -> Tensors | None:
        """The whole set where it lies in memory anyway."""
        return None

    @property
    def is_fixed(self) -> bool | None:
        """Whether an index always gives the same tensors; None if unknown."""
        return True


@final
class TensorSource(AbstractSource):
    """Tensors whose first dimension is the sample."""

    def __init__(self, tensors: Tensors, names: Names | None, label: str) -> None:
        lengths = {len(each) if each.dim() else 0 for each in tensors}
        if len(lengths) > 1:
            sizes = ", ".join(str(list(each.shape)) for each in tensors)
            raise DataError(f"the tensors have different numbers of samples: {sizes}")
        self.label = label
        self.length = lengths.pop()
        self.own_names = names
        self._tensors = tensors

    def fetch(self, indices: torch.Tensor) -> Tensors:
        """Gather rows."""
        return tuple(each.index_select(0, indices.to(each.device)) for each in self._tensors)

    @property
    def tensors(self) -> Tensors:
        """The tensors themselves."""
        return self._tensors


@final
class BatchSource(AbstractSource):
    """A data set that reads many samples at once."""

    def __init__(self, dataset: BatchDataSet) -> None:
        self.label = type(dataset).__name__
        self.length = len(dataset)
        self._dataset = dataset

    def fetch(self, indices: torch.Tensor) -> Tensors:
        """Call `get_batch` once."""
        wanted = indices.tolist()
        with _naming(f"{_some(wanted)} of {self.label}"):
            found = self._dataset.get_batch(wanted)
        tensors, self.own_names = tensors_of(found, f"{self.label}.get_batch")
        wrong = [list(each.shape) for each in tensors if each.shape[:1] != (len(wanted),)]
        if wrong:
            raise DataError(
                f"{self.label}.get_batch gave shape {wrong[0]} for {len(wanted)} indices; the first "
                "dimension must be as long as the indices"
            )
        return tensors


@final
class ItemSource(AbstractSource):
    """A data set that reads single samples, or lists of them through `__getitems__`."""

    def __init__(
        self,
        dataset: Any,
        read: Callable[[int], Any],
        collate: Collate | None,
        *,
        fixed: bool | None,
    ) -> None:
        self.label = type(dataset).__name__
        self.length = len(dataset)
        self._read = read
        self._read_many = _many(dataset) if fixed is None else None
        self._collate = collate
        self._fixed = fixed

    @property
    def is_fixed(self) -> bool | None:
        """True by promise of the protocol, else unknown."""
        return self._fixed

    def fetch(self, indices: torch.Tensor) -> Tensors:
        """Read the samples and stack them."""
        items = self._items(indices.tolist())
        if self._collate is not None:
            tensors, self.own_names = tensors_of(self._collate(items), "collate")
        else:
            tensors, self.own_names = stack(items, self.label)
        return tensors

    def _items(self, indices: list[int]) -> list[Any]:
        if self._read_many is not None:
            with _naming(f"{_some(indices)} of {self.label}"):
                return list(self._read_many(indices))
        items = []
        for index in indices:
            try:
                items.append(self._read(index))
            except Exception as error:
                error.add_note(f"while reading sample {index} of {self.label}")
                raise
        return items


@final
class StreamSource:
    """A data set that can only be read from its beginning."""

    def __init__(self, dataset: Iterable[Any], collate: Collate | None) -> None:
        self.label = type(dataset).__name__
        self.length = len(dataset) if isinstance(dataset, Sized) else None
        self.own_names: Names | None = None
        self._dataset = dataset
        self._collate = collate

    def read(self, epoch: int) -> Iterator[Any]:
        """Begin an epoch; `set_epoch` of the data set is called where there is one."""
        if "set_epoch" in dir(self._dataset):
            self._dataset.set_epoch(epoch)  # type: ignore[attr-defined]
        return iter(self._dataset)

    def batch(self, items: list[Any]) -> Tensors:
        """Return the tensors of items that have been read."""
        if self._collate is not None:
            tensors, self.own_names = tensors_of(self._collate(items), "collate")
        else:
            tensors, self.own_names = stack(items, self.label)
        return tensors


Source = AbstractSource | StreamSource


def source_of(dataset: Any, collate: Collate | None = None) -> Source:
    """Return the source for a data set of any kind.

    Raises:
        DataError: it is none, or it is empty.
    """
    source: Source | None = _tensor_source(dataset) if collate is None else None
    if source is None:
        source = _other_source(dataset, collate)
    if source.length == 0:
        raise DataError(f"the data set ({source.label}) is empty")
    return source


def _tensor_source(dataset: Any) -> AbstractSource | None:
    label = type(dataset).__name__
    if isinstance(dataset, torch_data.TensorDataset):
        return TensorSource(tuple(dataset.tensors), None, label)
    values = tuple(dataset.values()) if isinstance(dataset, Mapping) else dataset
    single = values if isinstance(values, tuple | list) else (values,)
    if not single or not all(_is_array(each) for each in single):
        return None
    values = tuple(_tensor(each) for each in single)
    if len(values) > _MOST_PARTS:
        raise DataError(
            f"a list of {len(values)} tensors: tensors in a list are the parts of a sample, each with all "
            "samples in its first dimension; if they are the samples, give torch.stack(...) of them, or a "
            "list of tuples"
        )
    names = tuple(str(name) for name in dataset) if isinstance(dataset, Mapping) else None
    return TensorSource(values, names, label)


def _is_array(value: Any) -> bool:
    """Return True if something is a tensor, or an array of NumPy with at least one dimension."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return bool(value.ndim > 0 and value.dtype != object)
    return isinstance(value, torch.Tensor)


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    with warnings.catch_warnings():
        # Arrays that may not be written to are shared all the same: nothing here writes to them.
        warnings.simplefilter("ignore", UserWarning)
        array = value if min(value.strides) >= 0 else value.copy()
        return torch.as_tensor(array)


def _other_source(dataset: Any, collate: Collate | None) -> Source:
    if isinstance(dataset, torch_data.IterableDataset):
        return StreamSource(dataset, collate)
    if isinstance(dataset, BatchDataSet):
        return BatchSource(dataset)
    is_no_list = isinstance(dataset, Mapping | str | bytes)
    by_index = isinstance(dataset, Sized) and "__getitem__" in dir(dataset)
    if by_index and not is_no_list:
        return ItemSource(dataset, dataset.__getitem__, collate, fixed=None)
    if isinstance(dataset, DataSet) and not by_index:
        return ItemSource(dataset, dataset.get, collate, fixed=True)
    if isinstance(dataset, Iterable) and not is_no_list:
        return StreamSource(dataset, collate)
    message = (
        f"{type(dataset).__name__} is no data set: give tensors, a torch Dataset, an iterable, or an object "
        "with `__len__` and `get(index)` or `get_batch(indices)`"
    )
    raise DataError(message)


def _many(dataset: Any) -> Callable[[list[int]], Any] | None:
    return dataset.__getitems__ if "__getitems__" in dir(dataset) else None


def _some(indices: list[int]) -> str:
    shown = ", ".join(str(index) for index in indices[:_SHOWN])
    return f"samples {shown}{', ...' if len(indices) > _SHOWN else ''}"


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Name the item that was being read in an exception."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while reading {what}")
        raise
