"""The methods of a graph for its tree, its tagged values and its metrics; each calls a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.graph.yielding import YieldingNamesMixin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch
    from torch import nn

    from flodl.graph.graph import Graph
    from flodl.graph.observation import Reduce
    from flodl.graph.paths import PathKind
    from flodl.observe.metrics import MetricLog
    from flodl.observe.trend import Mode, Trend, TrendGroup

    Names = Iterable[str]


class TreeMixin(YieldingNamesMixin):
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

    def tree_children(self) -> dict[str, Graph]:
        """Return the labelled graphs right below, by label."""
        from flodl.graph import paths

        return paths.tree_children(self)

    def child_graph(self, label: str) -> Graph | None:
        """Return the graph right below that has a label, if there is one."""
        from flodl.graph import paths

        return paths.tree_children(self).get(label)

    def subgraph(self, path: str) -> nn.Module:
        """Return the part of the model at a dotted path."""
        from flodl.graph import tree

        return tree.subgraph(self, path)

    def walk_modules(self, visit: Callable[[str, nn.Module], object]) -> None:
        """Call a function with path and module of every module of the tree, each once."""
        from flodl.graph import tree

        tree.walk_modules(self, visit)

    def validate_path(self, path: str) -> PathKind:
        """Return True if a dotted path leads to a part or to a tag."""
        from flodl.graph import tree

        return tree.validate_path(self, path)

    def parameters_at(
        self, path: str, *, trainable_only: bool = False
    ) -> tuple[nn.Parameter, ...]:
        """Return the parameters of a part, or of the module of a tagged step."""
        from flodl.graph import tree

        return tree.parameters_at(self, path, trainable_only=trainable_only)

    def named_parameters_at(self, path: str) -> tuple[tuple[str, nn.Parameter], ...]:
        """Return names and parameters of a part or a tag."""
        from flodl.graph import tree

        return tree.named_parameters_at(self, path)

    def named_buffers_at(self, path: str) -> tuple[tuple[str, torch.Tensor], ...]:
        """Return names and buffers of a part or a tag."""
        from flodl.graph import tree

        return tree.named_buffers_at(self, path)

    def trainable_parameters(self) -> tuple[nn.Parameter, ...]:
        """Return the parameters that are not frozen."""
        from flodl.graph import tree

        return tree.trainable_parameters(self)

    def freeze(self, path: str) -> int:
        """Stop training the parameters at a path; return how many tensors these are."""
        from flodl.graph import tree

        return tree.freeze(self, path)

    def thaw(self, path: str) -> int:
        """Train the parameters at a path again; return how many tensors these are."""
        from flodl.graph import tree

        return tree.thaw(self, path)

    def is_frozen(self, path: str) -> bool:
        """Return True if there are parameters at a path and none is trained."""
        from flodl.graph import tree

        return tree.is_frozen(self, path)

    def set_training_at(self, path: str, training: bool) -> None:
        """Switch one part to training or evaluation mode."""
        from flodl.graph import tree

        tree.set_training_at(self, path, training)

    def replace(self, path: str, new: nn.Module) -> nn.Module:
        """Put another module in the place of a part; return the old one."""
        from flodl.graph import tree

        return tree.replace(self, path, new)

    def tree_summary(self) -> str:
        """Return the tree of labelled graphs as text."""
        from flodl.graph import tree

        return tree.tree_summary(self)

    def param_summary(self) -> str:
        """Return a table of the parameters of each part."""
        from flodl.graph import tree

        return tree.param_summary(self)

    # ---- values by their tag --------------------------------------------------------------------

    def tag_names(self) -> tuple[str, ...]:
        """Return the tags."""
        from flodl.graph import paths

        return paths.tag_names(self)

    def observe_tags(self, *tags: str) -> None:
        """Keep the values of these tags only; by default all are kept."""
        from flodl.graph import observation

        observation.observe_tags(self, *tags)

    def tagged(self, tag: str) -> Any:
        """Return the value of a tag in the last forward, cut off from autograd; `None` before one."""
        from flodl.graph import observation

        return observation.tagged(self, tag)

    def tagged_at(self, path: str) -> Any:
        """Return the value of the tag at a dotted path in the last forward."""
        from flodl.graph import observation

        return observation.tagged_at(self, path)

    # ---- metrics over epochs --------------------------------------------------------------------

    def collect(self, tags: Names, reduce: Reduce | str | None = None) -> None:
        """Record tagged values of the last forward as metrics."""
        from flodl.graph import observation

        observation.collect(self, tags, reduce)

    def collect_with(self, tags: Names, reduce: Reduce | str) -> None:
        """Record tagged tensors of the last forward, each reduced to one number."""
        from flodl.graph import observation

        observation.collect(self, tags, reduce)

    def collect_at(self, paths: Names, reduce: Reduce | str | None = None) -> None:
        """Record tagged values of parts, each in the metrics of its part."""
        from flodl.graph import observation

        observation.collect_at(self, paths, reduce)

    def record(self, name: str, values: float | Iterable[float]) -> None:
        """Record values of the running epoch."""
        from flodl.graph import observation

        observation.log_of(self).record(name, values)

    def record_scalar(self, name: str, value: float) -> None:
        """Record one value of the running epoch."""
        from flodl.graph import observation

        observation.log_of(self).record(name, value)

    def record_at(self, path: str, values: float | Iterable[float]) -> None:
        """Record values as a metric of a part: `part.metric`."""
        from flodl.graph import observation

        observation.record_at(self, path, values)

    def collected(self, name: str) -> tuple[float, ...]:
        """Return the values of the running epoch."""
        from flodl.graph import observation

        return observation.log_of(self).collected(name)

    def flush(self, names: Names = ()) -> dict[str, float]:
        """End the epoch in the whole tree; return the means that were added."""
        from flodl.graph import observation

        return observation.flush(self, names)

    def flush_local(self, names: Names = ()) -> tuple[str, ...]:
        """End the epoch of this graph's own metrics; return their names."""
        from flodl.graph import observation

        return observation.log_of(self).flush(names)

    def flush_count(self) -> int:
        """Return how many epochs have ended."""
        from flodl.graph import observation

        return observation.log_of(self).flush_count

    def latest_metrics(self) -> dict[str, float]:
        """Return the last epoch value of every metric in the tree."""
        from flodl.graph import observation

        return observation.latest_metrics(self)

    def trend(self, name: str, mode: Mode | None = None) -> Trend:
        """Return the course of a metric over epochs."""
        from flodl.graph import observation

        return observation.log_of(self).trend(name, mode)

    def trend_at(self, path: str, mode: Mode | None = None) -> Trend:
        """Return the course of a metric of a part: `part.metric`."""
        from flodl.graph import observation

        return observation.trend_at(self, path, mode)

    def trends(self, names: Names = ()) -> TrendGroup:
        """Return the courses of metrics and groups."""
        from flodl.graph import observation

        return observation.trends(self, names)

    def reset_trend(self, names: Names = ()) -> None:
        """Forget epoch values; all of them if no metric is named."""
        from flodl.graph import observation

        observation.log_of(self).reset(names)

    def eta(self, total_epochs: int) -> float:
        """Return the seconds that the remaining epochs will take."""
        from flodl.graph import observation

        return observation.log_of(self).eta(total_epochs)

    def metric_log(self) -> MetricLog:
        """Return the log of this graph's own metrics."""
        from flodl.graph import observation

        return observation.log_of(self)
