"""A stage that takes one value out of what the stage before returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, final

from flodl.errors import GraphError


@final
@dataclass(frozen=True, slots=True)
class Field:
    """One value of a tuple, a mapping or an object: by its position, its key or the name of its attribute.

    Models of transformers return a `ModelOutput`, which is a mapping: `Field("last_hidden_state")`.

    Args:
        key: a whole number for a tuple or list, a text for a mapping, a named tuple or another object.

    Raises:
        GraphError: at a call, if there is no such value; the message names those that are there.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from flodl import Field, FlowBuilder
        >>> graph = FlowBuilder.from_(nn.LSTM(4, 8)).through(Field(0)).through(nn.Linear(8, 2)).build()
        >>> graph(torch.ones(5, 3, 4)).shape
        torch.Size([5, 3, 2])
    """

    key: str | int

    @property
    def __name__(self) -> str:
        """Return how a node is called that takes this value."""
        return self.key if isinstance(self.key, str) else f"item_{self.key}"

    def __call__(self, value: Any) -> Any:
        """Return the value.

        Raises:
            GraphError: there is no such value.
        """
        try:
            if isinstance(self.key, int) or isinstance(value, Mapping):
                return value[self.key]
            return attrgetter(self.key)(value)
        except (KeyError, IndexError, AttributeError, TypeError) as problem:
            message = f"there is no {self.key!r} in a {type(value).__name__}; {_held_by(value)}"
            raise GraphError(message) from problem


def _held_by(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"it has {', '.join(map(str, value))}"
    if isinstance(value, tuple | list):
        return f"it has {len(value)} values, from 0 on"
    return "give a key that it has, or leave the field out"
