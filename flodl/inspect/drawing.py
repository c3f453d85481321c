"""The content of pictures of a torch module: its description, parameter counts and nested graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from flodl.errors import GraphError
from flodl.graph.planned_module import PlannedModule
from flodl.graph.shape_nodes import metadata_nodes
from flodl.graph.texts import kinds_of, spec_of
from flodl.inspect.facts.lambdas import lambda_texts
from flodl.inspect.plain_pictures import opens, plain_part, settings_of
from flodl.visual.constructs import paths_of
from flodl.visual.dot import dot_of as dot_of_part
from flodl.visual.dot import dot_text
from flodl.visual.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flodl.ir.graph import GraphSpec


def part_of(module: nn.Module) -> Part:
    """Return everything about a module that can be drawn, nested ones included.

    Args:
        module: a `Graph` or `FlowModule` whose flow has been recorded, or a plain module.

    Raises:
        GraphError: the flow has not been recorded yet.
    """
    if not isinstance(module, PlannedModule):
        return plain_part(module, _inner)
    return _part(module, spec_of(module))


def _part(module: PlannedModule, spec: GraphSpec) -> Part:
    # A module at two places is drawn at both.
    modules = dict(module.named_modules(remove_duplicate=False))
    called = {
        each for node in spec.nodes for path in paths_of(node) for each in stages_at(modules, path)
    }
    return Part(
        spec=spec,
        title=spec.label or type(module).__name__,
        kinds={path: type(each).__name__ for path, each in modules.items() if path},
        lambdas=lambda_texts(each.constants for each in module._flodl_programs()),
        settings={
            path: text for path, each in modules.items() if path and (text := settings_of(each))
        },
        parameters={
            path: sum(parameter.numel() for parameter in each.parameters())
            for path, each in modules.items()
            if path
        },
        inner={
            path: inner
            for path, each in modules.items()
            if path and (inner := _inner(each) or _plain(each, called, path)) is not None
        },
        hidden=metadata_nodes(spec),
    )


def stages_at(modules: Mapping[str, nn.Module], path: str) -> Iterator[str]:
    """Yield the path of a stage, and of a list of stages the paths of those in it.

    Args:
        modules: the modules of a graph by path.
        path: the path of the stage, or of the list.

    Example:
        >>> from torch import nn
        >>> from flodl.inspect.drawing import stages_at
        >>> modules = dict(nn.ModuleDict({"steps": nn.ModuleList([nn.Tanh(), nn.ReLU()])}).named_modules())
        >>> [*stages_at(modules, "steps")]
        ['steps.0', 'steps.1']
    """
    if type(modules.get(path)) is not nn.ModuleList:
        yield path
        return
    for name in modules[path]._modules:
        yield from stages_at(modules, f"{path}.{name}")


def _inner(module: nn.Module) -> Part | None:
    """Return the part of a nested graph, `None` for one whose flow has never run."""
    if not isinstance(module, PlannedModule):
        return None
    try:
        spec = spec_of(module)
    except GraphError:
        return None
    return _part(module, spec)


def _plain(module: nn.Module, called: set[str], path: str) -> Part | None:
    """Return the part of a plain module that a flow calls, `None` for a layer."""
    if isinstance(module, PlannedModule) or path not in called or not opens(module):
        return None
    return plain_part(module, _inner)


def dot_of(module: nn.Module) -> str:
    """Return a module as a Graphviz `digraph`; nested graphs are one node each.

    Args:
        module: a graph whose flow has been recorded, or a plain module.

    Raises:
        GraphError: the flow has not been recorded yet.
    """
    if not isinstance(module, PlannedModule):
        return dot_of_part(plain_part(module, _no_part))
    return dot_text(spec_of(module), type(module).__name__, kinds_of(module))


def _no_part(module: nn.Module) -> None:
    """Return nothing: nested graphs are no part of this text."""
