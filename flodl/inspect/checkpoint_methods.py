"""The methods of a graph for its checkpoints and its structural hash; each calls a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.inspect import tree
from flodl.inspect.viewer import AbstractViewer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flodl.checkpoint.background import ModelSnapshot
    from flodl.checkpoint.contents import Source
    from flodl.checkpoint.store import LoadReport, Target


class CheckpointMixin(AbstractViewer):
    """Checkpoint methods of a graph.

    Example:
        >>> import io
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.Linear(4, 2)).build()
        >>> file = io.BytesIO()
        >>> graph.save_checkpoint(file)
        >>> str(graph.load_checkpoint(io.BytesIO(file.getvalue())))
        '2 loaded'
        >>> graph.structural_hash().startswith(graph.short_hash())
        True
    """

    def save_checkpoint(self, target: Target, *, config: str | None = None) -> None:
        """Save parameters, buffers, architecture and wiring to a path or a binary stream.

        Raises:
            CheckpointError: a tensor has no form in the file, or the file cannot be written.
        """
        from flodl.checkpoint.store import save

        save(self._viewed, target, config=config)

    def load_checkpoint(
        self,
        source: Source,
        *,
        prefix: str = "",
        rename: Mapping[str, str] | None = None,
        strict_hash: bool = True,
        part: str = "",
    ) -> LoadReport:
        """Load values by name from a path or a binary stream; see `flodl.load_checkpoint`.

        Args:
            source: the file.
            prefix: load only what is below this name in the file.
            rename: names of the file to those of the model, if they differ.
            strict_hash: whether another architecture is an error.
            part: a label, a name or a tag: load the checkpoint of that part into it.

        Raises:
            CheckpointError: the file is damaged, its architecture differs, or a shape does.
            UnknownNameError: there is no such part.
            GraphError: a tag whose step calls no module, or several.
        """
        from flodl.checkpoint.store import load

        target = tree.loadable(self._viewed, part) if part else self._viewed
        return load(target, source, prefix=prefix, rename=rename, strict_hash=strict_hash)

    def load_subgraph_checkpoint(
        self, path: str, source: Source, *, strict_hash: bool = True
    ) -> LoadReport:
        """Load the checkpoint of a part into that part of this graph, given by a label, a name or a tag.

        Raises:
            CheckpointError: as in `load_checkpoint`.
            UnknownNameError: there is no such part.
            GraphError: a tag whose step calls no module, or several.
        """
        from flodl.checkpoint.store import load

        return load(tree.loadable(self._viewed, path), source, strict_hash=strict_hash)

    def snapshot_cpu(
        self, *, metrics: Mapping[str, float] | None = None, epoch: int = 0
    ) -> ModelSnapshot:
        """Copy all values to the host, to be saved while training continues."""
        from flodl.checkpoint.background import snapshot_cpu

        return snapshot_cpu(self._viewed, metrics=metrics, epoch=epoch)

    def structural_hash(self) -> str:
        """Return 64 hexadecimal digits that change when the architecture does, and not when names do."""
        from flodl.checkpoint.topology import structural_hash

        return structural_hash(self._viewed)

    def short_hash(self) -> str:
        """Return the first eight digits of the structural hash."""
        return self.structural_hash()[:8]
