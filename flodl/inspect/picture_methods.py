"""A graph's methods for its traces, times, pictures and the files of its history; each calls a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.inspect import timing
from flodl.inspect.drawing import dot_of
from flodl.inspect.loop_history import read_traces
from flodl.inspect.viewer import AbstractViewer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torch import Tensor, nn

    from flodl.inspect.comparison import ModelDiff
    from flodl.inspect.facts.tensor_values import Weights
    from flodl.inspect.heat import Measure
    from flodl.observe.profile import Profile, ProfileStats
    from flodl.observe.trend import Trend
    from flodl.visual.assemble import Direction

    Names = Iterable[str]
    Target = str | Path


class PictureMixin(AbstractViewer):
    """Methods of a graph for traces, times, pictures and the history of its metrics.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.Linear(4, 2)).tag("head").build()
        >>> graph.svg().startswith("<svg")
        True
        >>> graph.enable_profiling()
        >>> graph(torch.ones(1, 4)).shape
        torch.Size([1, 2])
        >>> graph.timing("head") > 0
        True
    """

    # ---- traces of loops ------------------------------------------------------------------------

    def traces(self, name: str) -> list[Tensor]:
        """Return the values that the turns of a loop published in the last forward; see `LoopBody`.

        Args:
            name: the name that was published, or the tag of a loop whose body has `trace()`.

        Raises:
            GraphError: two loops have that name.
            UnknownNameError: nothing was published under it.
        """
        return read_traces(self._viewed, name)

    def last_trace(self, name: str) -> Tensor:
        """Return the last of `traces(name)`."""
        return self.traces(name)[-1]

    # ---- times of steps -------------------------------------------------------------------------

    def enable_profiling(self) -> None:
        """Time every node of every forward from now on."""
        timing.enable_profiling(self._viewed)

    def disable_profiling(self) -> None:
        """Stop timing, and forget the last profile."""
        timing.disable_profiling(self._viewed)

    def profiling(self) -> bool:
        """Return True if forwards are timed."""
        return timing.is_profiling(self._viewed)

    def profile(self) -> Profile | None:
        """Return the times of the last forward."""
        return timing.profile(self._viewed)

    def profile_stats(self) -> ProfileStats | None:
        """Return minimum and mean time per node over the forwards after warm-up."""
        return timing.profile_stats(self._viewed)

    def timing(self, tag: str) -> float | None:
        """Return the seconds of a tagged step in the last forward."""
        return timing.timing_of(self._viewed, tag)

    def collect_timings(self, tags: Names = ()) -> None:
        """Record the times of tagged steps."""
        timing.collect_timings(self._viewed, tags)

    def flush_timings(self) -> None:
        """End the epoch of times."""
        timing.flush_timings(self._viewed)

    def timing_trend(self, tag: str) -> Trend:
        """Return the course of the time of a tagged step."""
        return timing.timing_trend(self._viewed, tag)

    # ---- pictures -------------------------------------------------------------------------------

    def flow_text(self) -> str:
        """Return the flow as text: its inputs, a line per step with its tags, and its output.

        Raises:
            NotRecordedError: the flow has not been recorded yet.
        """
        from flodl.inspect import pictures

        return pictures.flow_text(self._viewed)

    def dot(self) -> str:
        """Return the flow as a Graphviz `digraph`.

        Raises:
            GraphError: the flow has not been recorded yet.
        """
        return dot_of(self._viewed)

    def svg(
        self,
        path: Target | None = None,
        *,
        depth: int = 0,
        fold: bool | None = None,
        direction: Direction = "down",
    ) -> str:
        """Return the picture of the graph as SVG; write it too if a path is given."""
        from flodl.inspect import pictures

        return pictures.svg(self._viewed, path, depth=depth, fold=fold, direction=direction)

    def svg_with_profile(
        self, path: Target | None = None, *, depth: int = 0, direction: Direction = "down"
    ) -> str:
        """Return the picture coloured by the times of the last forward."""
        from flodl.inspect import pictures

        return pictures.svg_with_profile(self._viewed, path, depth=depth, direction=direction)

    def dot_with_profile(self) -> str:
        """Return the graph with the times of the last forward in the DOT language."""
        from flodl.inspect import pictures

        return pictures.dot_with_profile(self._viewed)

    def heat_map(
        self,
        measure: Measure,
        *inputs: Any,
        path: Target | None = None,
        depth: int = 0,
        direction: Direction = "down",
        **named: Any,
    ) -> str:
        """Run a copy and return the picture coloured by `backward` time or by `memory`."""
        from flodl.inspect import pictures

        return pictures.heat_map(
            self._viewed, measure, *inputs, path=path, depth=depth, direction=direction, **named
        )

    def html(
        self,
        path: Target | None = None,
        *,
        depth: int = 0,
        fold: bool | None = None,
        direction: Direction = "down",
        weights: Weights = "small",
    ) -> str:
        """Return a page in which nested graphs open and close; `weights` are `none`, `small` or `all`."""
        from flodl.inspect import pictures

        return pictures.html(
            self._viewed, path, depth=depth, fold=fold, direction=direction, weights=weights
        )

    def mermaid(
        self, *, depth: int = 0, fold: bool | None = None, direction: Direction = "down"
    ) -> str:
        """Return the picture as a Mermaid flowchart."""
        from flodl.inspect import pictures

        return pictures.mermaid(self._viewed, depth=depth, fold=fold, direction=direction)

    def diff(self, other: nn.Module, *inputs: Any, **named: Any) -> ModelDiff:
        """Return what is different in another model: parts, settings, tensors, shapes and wiring.

        Args:
            other: the newer model; any module.
            *inputs: example inputs for both; with them, outputs and MACs are compared too.
            **named: keyword inputs.

        Raises:
            NotRecordedError: a flow has not been recorded yet, and no inputs are given.
        """
        from flodl.inspect import comparison

        return comparison.diff(self._viewed, other, *inputs, **named)

    def _repr_svg_(self) -> str | None:
        """Return the picture for notebooks, nothing before the flow is recorded."""
        from flodl.inspect import pictures

        return pictures.notebook_svg(self._viewed)

    # ---- the history of metrics as files --------------------------------------------------------

    def plot_html(self, path: Target, names: Names = ()) -> Path:
        """Write a page with a chart of metrics."""
        from flodl.inspect import pictures

        return pictures.plot_html(self._viewed, path, names)

    def plot_timings_html(self, path: Target, tags: Names = ()) -> Path:
        """Write a page with a chart of the times of tagged steps."""
        from flodl.inspect import pictures

        return pictures.plot_html(self._viewed, path, tags, "times")

    def export_trends(self, path: Target, names: Names = ()) -> Path:
        """Write metrics as CSV."""
        from flodl.inspect import pictures

        return pictures.export_trends(self._viewed, path, names)

    def export_timing_trends(self, path: Target, tags: Names = ()) -> Path:
        """Write the times of tagged steps as CSV."""
        from flodl.inspect import pictures

        return pictures.export_trends(self._viewed, path, tags, "times")

    def write_log(self, path: Target, total_epochs: int = 0, names: Names = ()) -> Path:
        """Write a line per epoch: metrics, duration, remaining time."""
        from flodl.inspect import pictures

        return pictures.write_log(self._viewed, path, total_epochs, names)
