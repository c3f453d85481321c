"""The methods of a graph for the loader that feeds it; each calls a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.inspect import batches
from flodl.inspect.viewer import AbstractViewer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flodl.inspect.batches import Loader, NamedBatch


class BatchMixin(AbstractViewer):
    """Batch methods of a graph.

    Example:
        >>> import torch
        >>> from flodl import DataLoader, FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.Linear(4, 2)).build()
        >>> images, labels = torch.ones(6, 4), torch.zeros(6)
        >>> loader = DataLoader([images, labels], 3, names=["image", "label"])
        >>> graph.set_data_loader(loader, "image")
        >>> [tuple(graph.forward_batch(batch).shape) for batch in graph.epoch(0)]
        [(3, 2), (3, 2)]
    """

    def set_data_loader(self, loader: Loader, part: str | None = None) -> None:
        """Let a loader feed the graph; it is neither copied nor saved with it.

        Args:
            loader: a `DataLoader`, or anything with `epoch(number, start)`.
            part: the name of the part that goes to the first input. Parts with the names of inputs go
                to these; the rest are targets.
        """
        batches.set_data_loader(self._viewed, loader, part)

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """Return the batches of an epoch of the loader, without the first `start`.

        Raises:
            GraphError: there is no loader.
        """
        return batches.epoch(self._viewed, number, start)

    def forward_batch(self, batch: NamedBatch) -> Any:
        """Run the graph on the parts of a batch that are its inputs.

        Raises:
            UnknownNameError: the batch lacks an input.
        """
        return batches.forward_batch(self._viewed, batch)
