"""Dotted paths through graphs, flow modules and plain modules: to a module or to a tag.

A segment is the label of a graph below or the name of a submodule; the last one may also be a tag.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, final

from flodl.errors import GraphError, UnknownNameError
from flodl.graph.planned_module import PlannedModule
from flodl.observe.metrics import unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from flodl.ir.graph import GraphSpec


@final
class PathKind(StrEnum):
    """The target of a path.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> from flodl.inspect.paths import PathKind
        >>> graph = FlowBuilder.from_(torch.relu).tag("active").build()
        >>> graph.validate_path("active") is PathKind.TAG
        True
    """

    SUBGRAPH = "subgraph"
    TAG = "tag"
    # The names of the Rust framework: aliases of the same two members.
    Subgraph = "subgraph"
    Tag = "tag"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The target of a path: a module, or a tag of a module.

    Attributes:
        path: the path.
        module: the module; for a tag the graph that has it.
        tag: the tag, empty for a module.
    """

    path: str
    module: nn.Module
    tag: str = ""

    @property
    def kind(self) -> PathKind:
        """Whether this is a module or a tag."""
        return PathKind.TAG if self.tag else PathKind.SUBGRAPH


def find(module: nn.Module, path: str, prefer: PathKind | None = None) -> Place:
    """Follow a dotted path.

    Args:
        module: where the path starts.
        path: segments joined by dots; the empty path is the module itself.
        prefer: the meaning of a last segment that names both a part and a tag.  By default it is the
            tag if that sits on this very part and the part is no graph.

    Raises:
        UnknownNameError: a segment names nothing; the message says which and what there is.
    """
    if not path:
        return Place(path=path, module=module)
    *leading, last = path.split(".")
    here = module
    for segment in leading:
        child = _child(here, segment)
        if child is None:
            raise _unknown_segment(here, segment, path)
        here = child
    return _last(here, last, path, prefer)


def tree_children(module: nn.Module) -> dict[str, PlannedModule]:
    """Return the labelled graphs below a module that are not inside another labelled graph.

    Args:
        module: any module.
    """
    found: dict[str, PlannedModule] = {}
    for child in module.children():
        label = _label(child)
        if label and isinstance(child, PlannedModule):
            found.setdefault(label, child)
        else:
            for name, graph in tree_children(child).items():
                found.setdefault(name, graph)
    return found


def tag_names(module: nn.Module, *, internal: bool = False) -> tuple[str, ...]:
    """Return the tags of a graph; none for other modules and for flows that have not run yet.

    Args:
        module: any module.
        internal: whether to include those that begin with an underscore.
    """
    return tuple(
        dict.fromkeys(
            tag.name
            for spec in specs_of(module)
            for tag in spec.tags
            if internal or not tag.internal
        )
    )


def specs_of(module: nn.Module) -> Iterator[GraphSpec]:
    """Return the descriptions of everything a graph does, newest first; none for other modules."""
    if isinstance(module, PlannedModule):
        for plans in module._flodl_plans.values():
            for program in reversed(plans.programs):
                yield program.spec


def _last(here: nn.Module, segment: str, path: str, prefer: PathKind | None) -> Place:
    child = _child(here, segment)
    if segment in tag_names(here, internal="." not in path):
        is_tag = prefer is PathKind.TAG or child is None
        if prefer is None and not isinstance(child, PlannedModule):
            is_tag = is_tag or here._modules.get(segment) in _tagged_parts(here, segment)
        if is_tag:
            return Place(path=path, module=here, tag=segment)
    if child is None:
        raise _unknown_segment(here, segment, path)
    return Place(path=path, module=child)


def _tagged_parts(here: nn.Module, tag: str) -> list[nn.Module]:
    return [
        here.get_submodule(spec.nodes[each.node].target)
        for spec in specs_of(here)
        for each in spec.tags
        if each.name == tag and spec.nodes[each.node].kind in ("module", "loop")
    ]


def _child(module: nn.Module, segment: str) -> nn.Module | None:
    return tree_children(module).get(segment) or module._modules.get(segment)


def _label(module: nn.Module) -> str:
    return next((spec.label for spec in specs_of(module) if spec.label), "")


def _unknown_segment(here: nn.Module, segment: str, path: str) -> UnknownNameError:
    known = {*tree_children(here), *here._modules, *tag_names(here, internal="." not in path)}
    error = unknown("label, submodule or tag", segment, known)
    message = f"path `{path}` ends at {type(here).__name__}: {error}"
    if isinstance(here, PlannedModule) and not any(True for _ in specs_of(here)):
        message += "; its flow has not run yet, so its tags are not known: call it once"
    return UnknownNameError(message)


def module_at(module: nn.Module, path: str, prefer: PathKind | None = None) -> nn.Module:
    """Return the module at a path.

    Args:
        module: where the path starts.
        path: a dotted path.
        prefer: as for `find`.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: the path leads to a tag.
    """
    place = find(module, path, prefer)
    if place.tag:
        message = (
            f"path `{path}` is a tag of {type(place.module).__name__}, not a part of the model"
        )
        raise GraphError(message)
    return place.module


def graph_only(module: nn.Module) -> PlannedModule:
    """Return a module that must be a graph.

    Args:
        module: any module.

    Raises:
        GraphError: the module is no graph.
    """
    if isinstance(module, PlannedModule):
        return module
    message = f"{type(module).__name__} is no graph: this needs a Graph or a FlowModule"
    raise GraphError(message)
