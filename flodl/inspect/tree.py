"""Work on a part of a model by its path: parameters, freezing, training mode, replacement, summaries.

Every function takes any `nn.Module`; tags and labels exist where graphs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flodl.errors import GraphError
from flodl.inspect.paths import (
    PathKind,
    Place,
    find,
    module_at,
    specs_of,
    tag_names,
    tree_children,
)
from flodl.ir.graph import Attr
from flodl.visual.constructs import submodules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from flodl.ir.graph import NodeSpec


def validate_path(module: nn.Module, path: str) -> PathKind:
    """Return True if a path leads to a part of the model or to a tag.

    Args:
        module: where the path starts.
        path: a dotted path.

    Raises:
        UnknownNameError: the path leads nowhere.
    """
    return find(module, path).kind


def walk_modules(module: nn.Module, visit: Callable[[str, nn.Module], object]) -> None:
    """Call a function for every module of a tree, each once, parents before their parts.

    Args:
        module: the root; its path is empty.
        visit: is called with the dotted path and the module. A module that has several paths comes with the
            first one. The function may change the tree: the modules that were there before are visited.

    Example:
        >>> from torch import nn
        >>> from flodl import walk_modules
        >>> shared = nn.ReLU()
        >>> walk_modules(nn.Sequential(shared, nn.Sequential(shared)), lambda path, _: print(repr(path)))
        ''
        '0'
        '1'
    """
    for path, each in list(module.named_modules()):
        visit(path, each)


def subgraph(module: nn.Module, path: str) -> nn.Module:
    """Return the part of the model at a path.

    Args:
        module: where the path starts.
        path: a dotted path.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: the path leads to a tag.
    """
    return module_at(module, path)


def loadable(module: nn.Module, path: str) -> nn.Module:
    """Return the part at a path into which a checkpoint is loaded: of a tag, the module of its step.

    Args:
        module: where the path starts.
        path: a dotted path.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: the path leads to a tag on a step without a module, or with several.
    """
    place = find(module, path)
    if not place.tag:
        return place.module
    parts = {id(part): part for _, part in _tagged_modules(place)}
    if len(parts) != 1:
        count = f"{len(parts)} modules" if parts else "no module"
        message = (
            f"tag `{path}` is on a step with {count}; give the path of the module to load into"
        )
        raise GraphError(message)
    return next(iter(parts.values()))


def named_parameters_at(module: nn.Module, path: str) -> tuple[tuple[str, nn.Parameter], ...]:
    """Return names and parameters at a path.

    Those of a part have the names they have within it; those of a tag belong to the module of the
    tagged node and are called `tag/name`.

    Args:
        module: where the path starts.
        path: a dotted path.

    Raises:
        UnknownNameError: the path leads nowhere.
    """
    place = find(module, path)
    if not place.tag:
        return tuple(place.module.named_parameters())
    found: dict[str, nn.Parameter] = {}
    for prefix, part in _tagged_modules(place):
        for name, parameter in part.named_parameters():
            found[f"{place.tag}/{prefix}{name}"] = parameter
    for attribute in _tagged_attributes(place):
        container, _, name = attribute.rpartition(".")
        table = place.module.get_submodule(container)._parameters
        if (single := table.get(name)) is not None:
            found[f"{place.tag}/{attribute}"] = single
    return tuple(found.items())


def parameters_at(
    module: nn.Module, path: str, *, trainable_only: bool = False
) -> tuple[nn.Parameter, ...]:
    """Return the parameters at a path.

    Args:
        module: where the path starts.
        path: a dotted path.
        trainable_only: whether to leave out the frozen ones.

    Raises:
        UnknownNameError: the path leads nowhere.
    """
    return tuple(
        parameter
        for _, parameter in named_parameters_at(module, path)
        if parameter.requires_grad or not trainable_only
    )


def named_buffers_at(module: nn.Module, path: str) -> tuple[tuple[str, Tensor], ...]:
    """Return names and buffers at a path, named like the parameters of `named_parameters_at`.

    Args:
        module: where the path starts.
        path: a dotted path.

    Raises:
        UnknownNameError: the path leads nowhere.
    """
    place = find(module, path)
    if not place.tag:
        return tuple(place.module.named_buffers())
    return tuple(
        (f"{place.tag}/{prefix}{name}", buffer)
        for prefix, part in _tagged_modules(place)
        for name, buffer in part.named_buffers()
    )


def trainable_parameters(module: nn.Module) -> tuple[nn.Parameter, ...]:
    """Return the parameters that are not frozen, for an optimizer.

    Args:
        module: any module.
    """
    return tuple(parameter for parameter in module.parameters() if parameter.requires_grad)


def freeze(module: nn.Module, path: str) -> int:
    """Stop training the parameters at a path; modes such as that of BatchNorm stay as they are.

    Args:
        module: where the path starts.
        path: a dotted path.

    Returns:
        The number of parameter tensors at the path.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: there is no parameter at the path.
    """
    return _set_trainable(module, path, trainable=False)


def thaw(module: nn.Module, path: str) -> int:
    """Train the parameters at a path again.

    Args:
        module: where the path starts.
        path: a dotted path.

    Returns:
        The number of parameter tensors at the path.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: there is no parameter at the path.
    """
    return _set_trainable(module, path, trainable=True)


def is_frozen(module: nn.Module, path: str) -> bool:
    """Return True if there are parameters at a path and none of them is trained.

    Args:
        module: where the path starts.
        path: a dotted path.

    Raises:
        UnknownNameError: the path leads nowhere.
    """
    parameters = parameters_at(module, path)
    return bool(parameters) and not any(each.requires_grad for each in parameters)


def set_training_at(module: nn.Module, path: str, training: bool) -> None:
    """Switch one part of the model to training or evaluation mode.

    Args:
        module: where the path starts.
        path: a dotted path; a tag means the module of the tagged node.
        training: the mode.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: a tagged node has no module.
    """
    place = find(module, path)
    if not place.tag:
        place.module.train(training)
        return
    parts = list(_tagged_modules(place))
    if not parts:
        message = f"tag `{path}` is on a step without a module; give the path of the module"
        raise GraphError(message)
    for _, part in parts:
        part.train(training)


def replace(module: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """Put another module in the place of a part, and return the old one; no other key changes.

    Args:
        module: where the path starts.
        path: the dotted path of a part.
        new: the new part.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: the path is empty or leads to a tag.
    """
    old = module_at(module, path, PathKind.SUBGRAPH)
    for parent in module.modules():
        for name, child in parent._modules.items():
            if child is old:
                setattr(parent, name, new)
                return old
    message = "the whole model has no parent in which it could be replaced"
    raise GraphError(message)


def tree_summary(module: nn.Module) -> str:
    """Return the tree of labelled graphs with their tags, one line each.

    Args:
        module: any module.
    """
    return "\n".join(_tree_lines(module, "", 0))


def param_summary(module: nn.Module) -> str:
    """Return a table of the parts right below a module: tensors, elements, and how many are frozen.

    Args:
        module: any module.
    """
    rows = [("part", "tensors", "elements", "frozen")]
    labels = {id(graph): label for label, graph in tree_children(module).items()}
    parts = [(labels.get(id(child), name), child) for name, child in module.named_children()]
    own = list(module.parameters(recurse=False))
    table = [(name, list(child.parameters())) for name, child in parts]
    if own:
        table.insert(0, ("(own)", own))
    table.append(("total", list(module.parameters())))
    for name, parameters in table:
        elements = sum(parameter.numel() for parameter in parameters)
        frozen = sum(not parameter.requires_grad for parameter in parameters)
        rows.append((name, str(len(parameters)), f"{elements:,}", str(frozen)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0])]
            + [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    )


def _tree_lines(module: nn.Module, name: str, depth: int) -> Iterator[str]:
    tensors = sum(1 for _ in module.parameters())
    state = ", frozen" if tensors and not trainable_parameters(module) else ""
    tags = "".join(f" #{tag}" for tag in tag_names(module))
    head = f"{name}: " if name else ""
    yield f"{'  ' * depth}{head}{type(module).__name__} ({tensors} parameter tensors{state}){tags}"
    for label, graph in tree_children(module).items():
        yield from _tree_lines(graph, label, depth + 1)


def _set_trainable(module: nn.Module, path: str, *, trainable: bool) -> int:
    parameters = parameters_at(module, path)
    if not parameters:
        what = "the tagged step" if find(module, path).tag else "the part"
        message = f"`{path}`: {what} has no parameters to freeze or thaw"
        raise GraphError(message)
    for parameter in parameters:
        parameter.requires_grad_(trainable)
    return len(parameters)


def _tagged_node(place: Place) -> NodeSpec:
    return next(
        spec.nodes[tag.node]
        for spec in specs_of(place.module)
        for tag in spec.tags
        if tag.name == place.tag
    )


def _tagged_modules(place: Place) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that the tagged node calls, each with the prefix of its names."""
    node = _tagged_node(place)
    if node.kind in ("module", "loop") and node.target:
        yield "", place.module.get_submodule(node.target)
    for arg in (*node.args, *(value for _, value in node.kwargs)):
        for path in filter(None, submodules(arg)):
            yield f"{path}.", place.module.get_submodule(path)


def _tagged_attributes(place: Place) -> Iterator[str]:
    node = _tagged_node(place)
    for arg in (*node.args, *(value for _, value in node.kwargs)):
        if isinstance(arg, Attr):
            yield arg.path
