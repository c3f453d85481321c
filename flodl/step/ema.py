"""Averaged weights: an exponential moving average of a model's parameters, updated with every step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

import torch

from flodl.nn.stateful import StatefulMixin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn


@final
class Ema(StatefulMixin):
    """`average = decay * average + (1 - decay) * parameter`, for every parameter of a model.

    Buffers are not averaged: the statistics of a BatchNorm are averages already.

    Example:
        >>> import torch
        >>> from flodl import Ema
        >>> layer = torch.nn.Linear(1, 1, bias=False)
        >>> _ = layer.weight.data.fill_(1.0)
        >>> ema = Ema(layer, decay=0.5)
        >>> _ = layer.weight.data.fill_(3.0)
        >>> ema.update()
        >>> with ema.applied():
        ...     layer.weight.item()
        2.0
        >>> layer.weight.item()
        3.0
    """

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        """Begin with the model's present weights.

        Raises:
            ValueError: the decay is not between 0 and 1.
        """
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"the decay of an average is at least 0 and below 1, got {decay}")
        self.decay = decay
        self._parameters: dict[str, Tensor] = dict(model.named_parameters())
        self.averages: dict[str, Tensor] = {
            name: each.detach().clone() for name, each in self._parameters.items()
        }

    def pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return the averages and the parameters that they follow, in the same order."""
        return list(self.averages.values()), list(self._parameters.values())

    @torch.no_grad()
    def update(self, updates: float = 1.0) -> None:
        """Move the averages towards the present weights.

        Args:
            updates: updates since the last call; more of them let the former averages fade by
                `decay ** updates`.
        """
        averages, parameters = self.pairs()
        torch._foreach_lerp_(averages, parameters, 1.0 - self.decay**updates)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the model compute with the averaged weights inside a `with` block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        # By value, not by storage: captured steps and views of the weights keep their addresses.
        averages, parameters = self.pairs()
        held = [each.clone() for each in parameters]
        torch._foreach_copy_(parameters, averages)
        torch._foreach_copy_(averages, held)

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        """Write the averages into the parameters of a model of the same structure."""
        for name, each in model.named_parameters():
            each.copy_(self.averages[name])

    def state_dict(self) -> dict[str, Any]:
        """Return the decay and the averages by parameter name."""
        return {"decay": self.decay, "averages": dict(self.averages)}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over saved averages.

        Raises:
            KeyError: they belong to a model with other parameters.
        """
        saved = state_dict["averages"]
        if saved.keys() != self.averages.keys():
            other = sorted(saved.keys() ^ self.averages.keys())
            raise KeyError(f"these averages are of another model; not in both: {', '.join(other)}")
        self.decay = float(state_dict["decay"])
        for name, each in self.averages.items():
            each.copy_(saved[name])
