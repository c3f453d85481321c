"""The methods of a graph for its tree, its tagged values and its metrics; each calls a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.inspect import observation, paths, tree
from flodl.inspect.viewer import AbstractViewer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch
    from torch import nn

    from flodl.graph.planned_module import PlannedModule
    from flodl.inspect.observation import Reduce
    from flodl.inspect.paths import PathKind
    from flodl.inspect.summary import Summary
    from flodl.observe.metrics import MetricLog
    from flodl.observe.trend import Mode, Trend, TrendGroup

    Names = Iterable[str]


class TreeMixin(AbstractViewer):
    """Methods of a graph for its parts, its tagged values and its metrics.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.Linear(4, 2)).tag("head").build()
        >>> graph.freeze("head"), graph.is_frozen("head")
        (2, True)
        >>> graph(torch.ones(1, 4)).shape == graph.tagged("head").shape
        True
        >>> graph.collect(["head"], reduce="mean")
        >>> list(graph.flush())
        ['head']
    """

    # ---- parts by their path --------------------------------------------------------------------

    def tree_children(self) -> dict[str, PlannedModule]:
        """Return the labelled graphs right below, by label."""
        return paths.tree_children(self._viewed)

    def child_graph(self, label: str) -> PlannedModule | None:
        """Return the graph right below that has a label, if there is one."""
        return paths.tree_children(self._viewed).get(label)

    def subgraph(self, path: str) -> nn.Module:
        """Return the part of the model at a dotted path."""
        return tree.subgraph(self._viewed, path)

    def walk_modules(self, visit: Callable[[str, nn.Module], object]) -> None:
        """Call a function with path and module of every module of the tree, each once."""
        tree.walk_modules(self._viewed, visit)

    def validate_path(self, path: str) -> PathKind:
        """Return True if a dotted path leads to a part or to a tag."""
        return tree.validate_path(self._viewed, path)

    def parameters_at(
        self, path: str, *, trainable_only: bool = False
    ) -> tuple[nn.Parameter, ...]:
        """Return the parameters of a part, or of the module of a tagged step."""
        return tree.parameters_at(self._viewed, path, trainable_only=trainable_only)

    def named_parameters_at(self, path: str) -> tuple[tuple[str, nn.Parameter], ...]:
        """Return names and parameters of a part or a tag."""
        return tree.named_parameters_at(self._viewed, path)

    def named_buffers_at(self, path: str) -> tuple[tuple[str, torch.Tensor], ...]:
        """Return names and buffers of a part or a tag."""
        return tree.named_buffers_at(self._viewed, path)

    def trainable_parameters(self) -> tuple[nn.Parameter, ...]:
        """Return the parameters that are not frozen."""
        return tree.trainable_parameters(self._viewed)

    def freeze(self, path: str) -> int:
        """Stop training the parameters at a path; return how many tensors these are."""
        return tree.freeze(self._viewed, path)

    def thaw(self, path: str) -> int:
        """Train the parameters at a path again; return how many tensors these are."""
        return tree.thaw(self._viewed, path)

    def is_frozen(self, path: str) -> bool:
        """Return True if there are parameters at a path and none is trained."""
        return tree.is_frozen(self._viewed, path)

    def set_training_at(self, path: str, training: bool) -> None:
        """Switch one part to training or evaluation mode."""
        tree.set_training_at(self._viewed, path, training)

    def replace(self, path: str, new: nn.Module) -> nn.Module:
        """Put another module in the place of a part; return the old one."""
        return tree.replace(self._viewed, path, new)

    def tree_summary(self) -> str:
        """Return the tree of labelled graphs as text."""
        return tree.tree_summary(self._viewed)

    def param_summary(self) -> str:
        """Return a table of the parameters of each part."""
        return tree.param_summary(self._viewed)

    def summary(
        self, *inputs: Any, depth: int | None = None, timed: bool = False, **named: Any
    ) -> Summary:
        """Run copies; return outputs, parameters and operations of each part, and the sizes of each value.

        With `timed` it also has the time of each part.
        """
        from flodl.inspect.summary import summary

        return summary(self._viewed, *inputs, depth=depth, timed=timed, **named)

    # ---- values by their tag --------------------------------------------------------------------

    def tag_names(self) -> tuple[str, ...]:
        """Return the tags."""
        return paths.tag_names(self._viewed)

    def observe_tags(self, *tags: str) -> None:
        """Keep the values of these tags only; by default all are kept."""
        observation.observe_tags(self._viewed, *tags)

    def tagged(self, tag: str) -> Any:
        """Return the value of a tag in the last forward, cut off from autograd; `None` before one."""
        return observation.tagged(self._viewed, tag)

    def tagged_at(self, path: str) -> Any:
        """Return the value of the tag at a dotted path in the last forward."""
        return observation.tagged_at(self._viewed, path)

    # ---- metrics over epochs --------------------------------------------------------------------

    def collect(self, tags: Names, reduce: Reduce | str | None = None) -> None:
        """Record tagged values of the last forward as metrics."""
        observation.collect(self._viewed, tags, reduce)

    def collect_with(self, tags: Names, reduce: Reduce | str) -> None:
        """Record tagged tensors of the last forward, each reduced to one number."""
        observation.collect(self._viewed, tags, reduce)

    def collect_at(self, paths: Names, reduce: Reduce | str | None = None) -> None:
        """Record tagged values of parts, each in the metrics of its part."""
        observation.collect_at(self._viewed, paths, reduce)

    def record(self, name: str, values: float | Iterable[float]) -> None:
        """Record values of the running epoch."""
        observation.log_of(self._viewed).record(name, values)

    def record_scalar(self, name: str, value: float) -> None:
        """Record one value of the running epoch."""
        observation.log_of(self._viewed).record(name, value)

    def record_at(self, path: str, values: float | Iterable[float]) -> None:
        """Record values as a metric of a part: `part.metric`."""
        observation.record_at(self._viewed, path, values)

    def collected(self, name: str) -> tuple[float, ...]:
        """Return the values of the running epoch."""
        return observation.log_of(self._viewed).collected(name)

    def flush(self, names: Names = ()) -> dict[str, float]:
        """End the epoch in the whole tree; return the means that were added."""
        return observation.flush(self._viewed, names)

    def flush_local(self, names: Names = ()) -> tuple[str, ...]:
        """End the epoch of this graph's own metrics; return their names."""
        return observation.log_of(self._viewed).flush(names)

    def flush_count(self) -> int:
        """Return how many epochs have ended."""
        return observation.log_of(self._viewed).flush_count

    def latest_metrics(self) -> dict[str, float]:
        """Return the last epoch value of every metric in the tree."""
        return observation.latest_metrics(self._viewed)

    def trend(self, name: str, mode: Mode | None = None) -> Trend:
        """Return the course of a metric over epochs."""
        return observation.log_of(self._viewed).trend(name, mode)

    def trend_at(self, path: str, mode: Mode | None = None) -> Trend:
        """Return the course of a metric of a part: `part.metric`."""
        return observation.trend_at(self._viewed, path, mode)

    def trends(self, names: Names = ()) -> TrendGroup:
        """Return the courses of metrics and groups."""
        return observation.trends(self._viewed, names)

    def reset_trend(self, names: Names = ()) -> None:
        """Forget epoch values; all of them if no metric is named."""
        observation.log_of(self._viewed).reset(names)

    def eta(self, total_epochs: int) -> float:
        """Return the seconds that the remaining epochs will take."""
        return observation.log_of(self._viewed).eta(total_epochs)

    def metric_log(self) -> MetricLog:
        """Return the log of this graph's own metrics."""
        return observation.log_of(self._viewed)
