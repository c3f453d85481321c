"""Things with a `state_dict` that save it to a separate file: optimizers, scalers, random generators."""

from __future__ import annotations

from typing import Any, Protocol

from flodl.checkpoint.state import Source, Target, load_state, save_state


class HasState(Protocol):
    """The interface of torch's optimizers, schedulers and scalers."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Take over a state."""
        ...


class StatefulMixin:
    """Adds `save_state` and `load_state` to a class with `state_dict` and `load_state_dict`."""

    __slots__ = ()

    def save_state(self: HasState, target: Target) -> None:
        """Write the state to a path or a binary stream; a path ending in `.gz` is compressed."""
        save_state(target, self.state_dict(), of=type(self).__name__)

    def load_state(self: HasState, source: Source) -> None:
        """Read a state that `save_state` wrote.

        Raises:
            CheckpointError: the file is damaged, or holds the state of another class.
        """
        self.load_state_dict(load_state(source, of=type(self).__name__))
