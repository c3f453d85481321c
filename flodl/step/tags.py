"""Tagged values of graphs inside a captured step: further outputs, put where `tagged()` looks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from torch import Tensor
from torch.utils import _pytree as pytree

from flodl.graph.instrumentation import Watch
from flodl.graph.planned_module import PlannedModule
from flodl.graph.state import has_state
from flodl.step.refusal import RefusedStepError

if TYPE_CHECKING:
    from torch import nn

    from flodl.graph.plan_cache import PlanCache


def _plans(model: nn.Module) -> list[PlanCache]:
    graphs = [each for each in model.modules() if isinstance(each, PlannedModule)]
    return [plans for graph in graphs for plans in graph._flodl_plans.values()]


@final
class Tags:
    """The places of all tagged values of a model; those of a copy are in the same order."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._plans = _plans(model)
        self._watches = [each.watch for each in self._plans]

    def changed(self) -> bool:
        """Return True if something else is noted now."""
        pairs = zip(self._plans, self._watches, strict=True)
        return any(plans.watch is not watch for plans, watch in pairs)

    def follow(self, live: Tags) -> None:
        """Note on a copy what is noted on the model itself.

        Raises:
            RefusedStepError: times or all values are noted, which only Python can do.
        """
        for plans, watch in zip(self._plans, live._watches, strict=True):
            if watch.profiler is not None or watch.inspect is not None or watch.values:
                raise RefusedStepError("the graph is being profiled")
            plans.watched(Watch(watch.tags))
        self._watches = [each.watch for each in self._plans]

    def forget(self) -> None:
        """Forget all values before a forward."""
        for watch in self._watches:
            watch.kept.values = {}

    def gather(self) -> tuple[list[Tensor], Layout]:
        """Return the tensors that a forward has left, and how they belong together.

        Raises:
            RefusedStepError: the graph keeps values for its next call, or tags values that are no tensors.
        """
        if has_state(self._model):
            raise RefusedStepError("the graph keeps values from one call to the next")
        leaves, tree = pytree.tree_flatten([watch.kept.values for watch in self._watches])
        if not all(isinstance(each, Tensor) for each in leaves):
            raise RefusedStepError("a tagged value is not a tensor")
        return leaves, Layout(tree)

    def put(self, tensors: list[Tensor], layout: Layout) -> None:
        """Put the values of a step where `tagged()` looks for them."""
        values = pytree.tree_unflatten(tensors, layout.tree)
        for watch, each in zip(self._watches, values, strict=True):
            watch.kept.values = each


@final
class Layout:
    """The structure of the tensors of all tags."""

    __slots__ = ("count", "tree")

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.count: int = tree.num_leaves

    @classmethod
    def of(cls, values: list[Any]) -> Layout:
        """Return the layout of some values."""
        return cls(pytree.tree_flatten(values)[1])
