"""Containers and buffers that a flow reads and changes itself: `seen = self.cfg.seen; seen.append(1)`.

Only the trace makes such a change, and a guard on the contents before it would admit a later call that
begins with equal contents.  The plan is therefore for the traced call alone: each call traces again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, final

from flodl.tracing.flow_value import unwrap
from flodl.tracing.pytrees import map_leaves
from flodl.tracing.reads.guard_values import is_same, kept_items, same_array, same_items
from flodl.tracing.reads.opaque_objects import facts_of, has_facts

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class ChangedContents:
    """The containers and buffers that one trace has read, and what they held."""

    def __init__(self) -> None:
        # By identity: the object, how to compare what it holds, what it held, and who reads it.
        self._before: dict[int, tuple[Any, Callable[[Any, Any], bool], Any, set[int]]] = {}
        self._restored: list[tuple[Any, Any]] = []

    def release(self) -> None:
        """Drop every object."""
        self._before.clear()
        self._restored.clear()

    def container(self, value: Any, reader: int) -> None:
        """Note the items of a container, and the function that reads it."""
        if self._is_new(value, reader):
            self._before[id(value)] = value, same_items, kept_items(value), {reader}
            self._keep(value)

    def _keep(self, value: Any) -> None:
        if type(value) in (list, dict, OrderedDict, set):
            self._restored.append((value, value.copy()))

    def buffer(self, value: Any, reader: int) -> None:
        """Note the bytes of a buffer, and the function that reads it."""
        if self._is_new(value, reader):
            self._before[id(value)] = value, has_facts, facts_of(value), {reader}

    def array(self, value: Any, reader: int) -> None:
        """Note the numbers of an array of numpy, and the function that reads it."""
        if self._is_new(value, reader):
            self._before[id(value)] = value, same_array, value.copy(), {reader}

    def _is_new(self, value: Any, reader: int) -> bool:
        known = self._before.get(id(value))
        if known is not None:
            known[-1].add(reader)
        return known is None

    def has_any(self, readers: set[int]) -> bool:
        """Return True if one of them that some functions read holds something else than before."""
        return not all(
            same(value, kept)
            for value, same, kept, found in self._before.values()
            if not found.isdisjoint(readers)
        )

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
