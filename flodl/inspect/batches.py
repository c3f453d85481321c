"""A graph and the loader that feeds it: which part of a batch goes to which input."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final
from weakref import WeakKeyDictionary

from flodl.errors import GraphError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch
    from torch import nn


class NamedBatch(Protocol):
    """Tensors that are found by name."""

    names: tuple[str, ...]

    def __getitem__(self, key: str, /) -> torch.Tensor:
        """Return a part."""
        ...


class Loader(Protocol):
    """Gives the batches of any epoch, from any position on."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of an epoch."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Feed:
    """The loader of a graph.

    Attributes:
        loader: gives the batches.
        part: the name of the part that goes to the first input; nothing if names decide that too.
    """

    loader: Loader
    part: str | None


# Beside the graphs and not in them: a copy or a file of a model has nothing to do with its data.
_FEEDS: WeakKeyDictionary[nn.Module, Feed] = WeakKeyDictionary()


def set_data_loader(graph: nn.Module, loader: Loader, part: str | None) -> None:
    """Let a loader feed a graph."""
    _FEEDS[graph] = Feed(loader, part)


def epoch(graph: nn.Module, number: int, start: int) -> Iterator[Any]:
    """Return the batches of an epoch of the loader.

    Raises:
        GraphError: the graph has no loader.
    """
    if graph not in _FEEDS:
        raise GraphError(
            f"this {type(graph).__name__} has no loader: call set_data_loader(loader) first"
        )
    return _FEEDS[graph].loader.epoch(number, start)


def forward_batch(graph: nn.Module, batch: NamedBatch) -> Any:
    """Run a graph on the parts of a batch whose names are those of its inputs.

    Raises:
        UnknownNameError: a part that an input needs is not in the batch.
    """
    needed = _inputs(graph)
    part = _FEEDS[graph].part if graph in _FEEDS else None
    first, *others = needed
    # Data without names: the first part is the input, the others are targets.
    value = batch[part or (first if first in batch.names else batch.names[0])]
    named = {name: batch[name] for name in others if name in batch.names}
    missing = [name for name in others if name not in named and needed[name]]
    if missing:
        raise UnknownNameError(
            f"no part of the batch is called {', '.join(missing)} (its parts: {', '.join(batch.names)}); "
            "name the parts of the loader after the inputs of the graph: names=[...]"
        )
    return graph(value, **named)


def _inputs(graph: nn.Module) -> Mapping[str, bool]:
    """Return the names of the inputs, each with whether it must be given."""
    from flodl.graph.planned_module import PlannedModule

    asked = inspect.signature(graph.forward).parameters.values()
    single = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = {
        each.name: each.default is inspect.Parameter.empty
        for each in asked
        if each.kind not in single
    }
    if found or not isinstance(graph, PlannedModule):
        return found
    return {each.name: True for each in graph._flodl_programs()[-1].spec.inputs}
