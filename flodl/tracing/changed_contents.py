"""Containers and buffers that a flow reads and changes itself: `seen = self.cfg.seen; seen.append(1)`.

Only the trace makes such a change, and a guard on the contents before it would admit a later call that
begins with equal contents.  The plan is therefore for the traced call alone: each call traces again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, final

from flodl.tracing.guard_values import is_same, kept_items, same_array, same_items
from flodl.tracing.opaque_objects import facts_of, has_facts
from flodl.tracing.pytrees import map_leaves
from flodl.tracing.readings import unwrap

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class ChangedContents:
    """The containers and buffers that one trace has read, and what they held."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, Callable[[Any, Any], bool], Any]] = []
        self._restored: list[tuple[Any, Any]] = []

    def release(self) -> None:
        """Drop every object."""
        self._before.clear()
        self._restored.clear()

    def container(self, value: Any) -> None:
        """Note the items of a container."""
        self._before.append((value, same_items, kept_items(value)))
        if type(value) in (list, dict, OrderedDict, set):
            self._restored.append((value, value.copy()))

    def buffer(self, value: Any) -> None:
        """Note the bytes of a buffer."""
        self._before.append((value, has_facts, facts_of(value)))

    def array(self, value: Any) -> None:
        """Note the numbers of an array of numpy."""
        self._before.append((value, same_array, value.copy()))

    def has_any(self) -> bool:
        """Return True if one of them holds something else than before."""
        return not all(same(value, kept) for value, same, kept in self._before)

    def settle(self, *, valued: bool) -> bool:
        """Leave the containers that the flow has changed as the plain module would.

        A traced value in one of them becomes the value that it stands for.

        Args:
            valued: whether there are values; without, as after construction, changes are taken back.

        Returns:
            True if the flow has changed none.
        """
        changed = [
            (value, before) for value, before in self._restored if not is_same(value, before)
        ]
        for value, before in changed:
            kept = map_leaves(value, unwrap) if valued else before
            if isinstance(value, list):
                value[:] = kept
            else:
                value.clear()
                value.update(kept)
        return not changed
