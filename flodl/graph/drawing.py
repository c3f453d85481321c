"""The content of pictures of a torch module: its description, parameter counts and nested graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.errors import GraphError
from flodl.graph.graph import Graph
from flodl.graph.plain_pictures import plain_part
from flodl.graph.shape_nodes import metadata_nodes
from flodl.graph.texts import spec_of
from flodl.visual.part import Part

if TYPE_CHECKING:
    from torch import nn

    from flodl.ir.graph import GraphSpec


def part_of(module: nn.Module) -> Part:
    """Return everything about a module that can be drawn, nested ones included.

    Args:
        module: a `Graph` or `FlowModule` whose flow has been recorded, or a plain module.

    Raises:
        GraphError: the flow has not been recorded yet.
    """
    if not isinstance(module, Graph):
        return plain_part(module, _inner)
    return _part(module, spec_of(module))


def _part(module: Graph, spec: GraphSpec) -> Part:
    # A module at two places is drawn at both.
    modules = dict(module.named_modules(remove_duplicate=False))
    return Part(
        spec=spec,
        title=spec.label or type(module).__name__,
        kinds={path: type(each).__name__ for path, each in modules.items() if path},
        parameters={
            path: sum(parameter.numel() for parameter in each.parameters())
            for path, each in modules.items()
            if path
        },
        inner={
            path: inner
            for path, each in modules.items()
            if path and (inner := _inner(each)) is not None
        },
        hidden=metadata_nodes(spec),
    )


def _inner(module: nn.Module) -> Part | None:
    """Return the part of a nested graph, `None` for one whose flow has never run."""
    if not isinstance(module, Graph):
        return None
    try:
        spec = spec_of(module)
    except GraphError:
        return None
    return _part(module, spec)
