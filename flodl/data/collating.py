"""Conversion of the items of a data set to tensors, the parts of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import default_collate

from flodl.errors import DataError

Names = tuple[str, ...]
Collate = Callable[[list[Any]], Any]


def parts_of(value: Any) -> tuple[tuple[Any, ...], Names | None]:
    """Return the parts of an item or a batch, and their names if it has any."""
    kind = type(value)
    if kind is tuple:
        return value, None
    if isinstance(value, tuple) and "_fields" in dir(kind):
        return tuple(value), tuple(kind._fields)
    if isinstance(value, tuple | list):
        return tuple(value), None
    if isinstance(value, Mapping):
        return tuple(value.values()), tuple(str(name) for name in value)
    return (value,), None


def _rows(items: list[Any], label: str) -> list[tuple[Any, ...]]:
    """Return the parts of many items, which are mostly of one kind."""
    kind = type(items[0])
    if isinstance(items[0], Mapping):
        # Mappings may have their keys in different orders.
        keys = tuple(items[0])
        whole = all(isinstance(item, Mapping) and len(item) == len(keys) for item in items)
        if not whole or any(key not in item for item in items for key in keys):
            raise DataError(f"items of {label} have different keys; the first has {list(keys)}")
        return [tuple([item[key] for key in keys]) for item in items]
    if issubclass(kind, tuple) and all(type(item) is kind for item in items):
        return items
    if issubclass(kind, torch.Tensor) and all(type(item) is kind for item in items):
        return [(item,) for item in items]
    if any(isinstance(item, Mapping) for item in items):
        raise DataError(f"items of {label} have names, but not the first one")
    return [parts_of(item)[0] for item in items]


def tensors_of(value: Any, label: str) -> tuple[tuple[torch.Tensor, ...], Names | None]:
    """Return the tensors of something that is a batch already.

    Raises:
        DataError: a part is no tensor, or there are none.
    """
    parts, names = parts_of(value)
    if not parts:
        raise DataError(f"{label} gave a batch without tensors")
    for index, part in enumerate(parts):
        if not isinstance(part, torch.Tensor):
            name = names[index] if names else index
            raise DataError(
                f"{label} gave part {name} as {type(part).__name__}; it must be a tensor"
            )
    return parts, names


def stack(items: list[Any], label: str) -> tuple[tuple[torch.Tensor, ...], Names | None]:
    """Return the tensors of a batch of items, one per part, as `torch.utils.data` would make them.

    Raises:
        DataError: items have different numbers of parts or shapes, or parts that are no numbers.
    """
    first, names = parts_of(items[0])
    if not first:
        raise DataError(f"{label} gave an item without parts")
    rows = _rows(items, label)
    counts = {len(row) for row in rows}
    if len(counts) > 1:
        raise DataError(f"items of {label} have different numbers of parts: {sorted(counts)}")
    called = names or tuple(str(index) for index in range(len(first)))
    columns = zip(called, zip(*rows, strict=True), strict=True)
    return tuple([_column(values, name, label) for name, values in columns]), names


def _column(values: tuple[Any, ...], name: str, label: str) -> torch.Tensor:
    try:
        column = default_collate(list(values))
    except TypeError:
        column = None  # torch cannot convert it
    except RuntimeError:
        _require_one_shape(values, name, label)
        raise
    if not isinstance(column, torch.Tensor):
        raise DataError(
            f"part {name} of the items of {label} is {type(values[0]).__name__}, which is no tensor; "
            "convert it in the data set or in `collate=`"
        )
    return column


def _require_one_shape(values: tuple[Any, ...], name: str, label: str) -> None:
    shapes = {tuple(each.shape) for each in values if isinstance(each, torch.Tensor)}
    if len(shapes) > 1:
        some = ", ".join(str(list(shape)) for shape in sorted(shapes)[:3])
        raise DataError(
            f"part {name} has different shapes in the items of one batch of {label}: {some}; bring them "
            "to one shape in `collate=`, or use batch_size=1"
        )


def checked_names(names: Sequence[str] | None, count: int, own: Names | None, label: str) -> Names:
    """Return the names of the parts: given, the data set's own, or numbers.

    Raises:
        DataError: their number is not that of the parts, or one occurs twice.
    """
    chosen = tuple(names) if names is not None else own or tuple(str(i) for i in range(count))
    if len(chosen) != count:
        raise DataError(
            f"{len(chosen)} names ({', '.join(chosen)}) for {count} parts of {label}; give one per part"
        )
    if len(set(chosen)) != count:
        raise DataError(f"names stand twice: {', '.join(chosen)}")
    return chosen
