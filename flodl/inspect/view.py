"""Views: the methods of a graph, on any module.

    view = flodl.view(model)                # a flow module, a model of transformers, a plain network
    view.freeze("encoder.layer.0")
    view.svg("model.svg")

The model's class gets none of these names, and the model none of the view: a view holds nothing. What its
methods keep (metrics, counts, watched tags) lies with the model, so every view of a model shows the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, final

from torch import nn

from flodl.graph.texts import code_of, spec_of
from flodl.inspect.batch_methods import BatchMixin
from flodl.inspect.checkpoint_methods import CheckpointMixin
from flodl.inspect.paths import graph_only
from flodl.inspect.picture_methods import PictureMixin
from flodl.inspect.state_methods import StateMixin
from flodl.inspect.training_methods import TrainingMixin
from flodl.inspect.tree_methods import TreeMixin
from flodl.inspect.values.methods import ValueMixin

if TYPE_CHECKING:
    from flodl.ir.graph import GraphSpec


class ViewMixin(
    StateMixin,
    TreeMixin,
    PictureMixin,
    CheckpointMixin,
    BatchMixin,
    TrainingMixin,
    ValueMixin,
):
    """All methods of a graph and of a view."""


@final
class View(ViewMixin):
    """The methods of a graph, on another module.

    Example:
        >>> import torch, flodl
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        >>> view = flodl.view(model)
        >>> view.freeze("0"), view.is_frozen("0")
        (2, True)
        >>> [parameter.requires_grad for parameter in model.parameters()]
        [False, False, True, True]
    """

    def __init__(self, module: nn.Module) -> None:
        """Look at a module."""
        self.module = module

    @property
    def _viewed(self) -> nn.Module:
        return self.module

    @property
    def spec(self) -> GraphSpec:
        """The description of a graph or flow module that is in force: the most recently recorded one.

        Raises:
            GraphError: the flow has not been recorded yet, or the module has none.
        """
        return spec_of(graph_only(self.module))

    @property
    def code(self) -> str:
        """The generated Python source of a flow, one text per recorded plan.

        Raises:
            GraphError: the flow has not been recorded yet, or the module has none.
        """
        return code_of(graph_only(self.module))

    def __repr__(self) -> str:
        return f"view of {type(self.module).__name__}"


NAMES = frozenset(name for name in dir(View) if not name.startswith("_"))


def view(module: nn.Module) -> View:
    """Return the tree, tags, metrics, times, pictures and checkpoints of any module, as methods.

    Args:
        module: a flow module, or any other module of torch. A graph from a builder is its own view.

    Returns:
        A `View`, or the graph itself.

    Raises:
        TypeError: this is no module.

    Example:
        >>> import torch, flodl
        >>> print(flodl.view(torch.nn.Linear(4, 2)).param_summary())
        part   tensors  elements  frozen
        (own)        2        10       0
        total        2        10       0
    """
    looked_at: object = module
    if isinstance(looked_at, ViewMixin) and not _hides_methods(looked_at):
        return cast("View", looked_at)  # it has all methods of a view
    if not isinstance(looked_at, nn.Module):
        message = f"flodl.view takes a torch.nn.Module, not a {type(looked_at).__name__}"
        raise TypeError(message)
    return View(looked_at)


def _hides_methods(graph: ViewMixin) -> bool:
    """Return True if a part of a graph has the name of a method: it was named after a tag."""
    return not NAMES.isdisjoint(vars(graph).get("_modules", ()))
