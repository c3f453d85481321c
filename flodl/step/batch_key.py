"""Batches as flat lists of tensors, with a key that says which captured step they fit."""

from __future__ import annotations

import copy
from collections import UserDict
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

from torch import Tensor

from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

Key: TypeAlias = "tuple[Hashable, ...]"
_PLAIN = (str, int, float, bool, bytes, type(None))


@runtime_checkable
class HasTensors(Protocol):
    """The interface of `flodl.data.Batch`: named tensors in a fixed order."""

    tensors: tuple[Tensor, ...]
    names: tuple[str, ...]


# Reading the shape of an object is slow; its class is checked once.
_KNOWN: dict[type, bool] = {}


def _has_tensors(part: Any) -> TypeGuard[HasTensors]:
    kind = type(part)
    if kind not in _KNOWN:
        _KNOWN[kind] = isinstance(part, HasTensors)
    return _KNOWN[kind]


def read(batch: Any) -> tuple[list[Tensor], Key]:
    """Return the tensors of a batch and what a captured step depends on beyond their values.

    Raises:
        RefusedStepError: the batch holds something that is neither a tensor nor a plain value.
    """
    tensors: list[Tensor] = []
    key: list[Hashable] = []
    _read(batch, tensors, key)
    return tensors, tuple(key)


def _read(part: Any, tensors: list[Tensor], key: list[Hashable]) -> None:
    if isinstance(part, Tensor):
        tensors.append(part)
        key.append((part.shape, part.dtype, part.stride(), part.device, part.requires_grad))
    elif isinstance(part, (tuple, list)):
        key.append((type(part), len(part)))
        for each in part:
            _read(each, tensors, key)
    elif isinstance(part, dict):
        key.append((type(part), tuple(part)))
        for each in part.values():
            _read(each, tensors, key)
    elif isinstance(part, _PLAIN):
        key.append((type(part), part))
    elif isinstance(part, UserDict):
        # A tokenizer of transformers may add what it knows of the texts, which a train_fn could use.
        beside = tuple((name, each) for name, each in vars(part).items() if name != "data")
        _read((part.data, beside), tensors, key)
        key.append((type(part),))
    elif _has_tensors(part):
        key.append((type(part), part.names))
        for each in part.tensors:
            _read(each, tensors, key)
    else:
        raise RefusedStepError(
            f"a batch holds a {type(part).__name__}, not only tensors and plain values"
        )


def rebuilt(batch: Any, tensors: Iterator[Tensor]) -> Any:
    """Return a batch of the same form with other tensors, taken in the order of `read`."""
    if isinstance(batch, Tensor):
        return next(tensors)
    if isinstance(batch, (tuple, list)):
        parts = [rebuilt(each, tensors) for each in batch]
        if isinstance(batch, list) or type(batch) is tuple:
            return type(batch)(parts)
        return type(batch)(*parts)  # a namedtuple takes its fields one by one
    if isinstance(batch, dict):
        return {name: rebuilt(each, tensors) for name, each in batch.items()}
    if isinstance(batch, UserDict):
        made = copy.copy(batch)
        made.data = rebuilt(batch.data, tensors)
        return made
    if _has_tensors(batch):
        make: Any = type(batch)
        return make(tuple(rebuilt(each, tensors) for each in batch.tensors), batch.names)
    return batch
