"""Items of an iterator, one by one, as a flow requests them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def advance(iterator: Iterator[Any]) -> tuple[bool, Any]:
    """Return whether an iterator has another item, and the item.

    Example:
        >>> advance(iter("a"))
        (True, 'a')
        >>> advance(iter(""))
        (False, None)
    """
    for item in iterator:
        return True, item
    return False, None
