"""Iterators where a list is meant: one that gives nothing never passes in silence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Item = TypeVar("Item")


def listed(
    values: Iterable[Item], what: str, *, may_be_empty: bool = False, callers: int = 1
) -> list[Item]:
    """Return the values as a list; an empty list or tuple is a choice, an empty iterator a slip.

    Python gives each value of `model.parameters()` once. Whoever reads the same generator later sees
    nothing, as after `optimizer = Adam(parameters)`, and would do nothing.

    Args:
        values: any iterable.
        what: the plural noun for the values, for the message.
        may_be_empty: whether no values are fine, as for the buffers of a model that has none.
        callers: the number of library functions between this one and the user's line.

    Raises:
        ValueError: a generator was read to its end before.

    Warns:
        UserWarning: another iterator gives nothing where it must give something.
    """
    used_up = isinstance(values, GeneratorType) and values.gi_frame is None
    found = list(values)
    if found or not isinstance(values, Iterator):
        return found
    advice = f"read it once into a list (`{what} = list(...)`), or call the method again"
    if used_up:
        raise ValueError(f"the generator of {what} was already read to its end; {advice}")
    if not may_be_empty:
        warnings.warn(
            f"the iterator of {what} gives nothing, so nothing is done; if it was read before, {advice}",
            UserWarning,
            stacklevel=2 + callers,
        )
    return found
