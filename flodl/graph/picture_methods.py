"""A graph's methods for its traces, times, pictures and the files of its history; each calls a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.graph.yielding import YieldingNamesMixin

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torch import Tensor

    from flodl.graph.heat import Measure
    from flodl.observe.profile import Profile, ProfileStats
    from flodl.observe.trend import Trend

    Names = Iterable[str]
    Target = str | Path


class PictureMixin(YieldingNamesMixin):
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
        from flodl.graph.loop_history import read_traces

        return read_traces(self, name)

    def last_trace(self, name: str) -> Tensor:
        """Return the last of `traces(name)`."""
        return self.traces(name)[-1]

    # ---- times of steps -------------------------------------------------------------------------

    def enable_profiling(self) -> None:
        """Time every node of every forward from now on."""
        from flodl.graph import timing

        timing.enable_profiling(self)

    def disable_profiling(self) -> None:
        """Stop timing, and forget the last profile."""
        from flodl.graph import timing

        timing.disable_profiling(self)

    def profiling(self) -> bool:
        """Return True if forwards are timed."""
        from flodl.graph import timing

        return timing.is_profiling(self)

    def profile(self) -> Profile | None:
        """Return the times of the last forward."""
        from flodl.graph import timing

        return timing.profile(self)

    def profile_stats(self) -> ProfileStats | None:
        """Return minimum and mean time per node over the forwards after warm-up."""
        from flodl.graph import timing

        return timing.profile_stats(self)

    def timing(self, tag: str) -> float | None:
        """Return the seconds of a tagged step in the last forward."""
        from flodl.graph import timing

        return timing.timing_of(self, tag)

    def collect_timings(self, tags: Names = ()) -> None:
        """Record the times of tagged steps."""
        from flodl.graph import timing

        timing.collect_timings(self, tags)

    def flush_timings(self) -> None:
        """End the epoch of times."""
        from flodl.graph import timing

        timing.flush_timings(self)

    def timing_trend(self, tag: str) -> Trend:
        """Return the course of the time of a tagged step."""
        from flodl.graph import timing

        return timing.timing_trend(self, tag)

    # ---- pictures -------------------------------------------------------------------------------

    def svg(self, path: Target | None = None, *, depth: int = 0, fold: bool | None = None) -> str:
        """Return the picture of the graph as SVG; write it too if a path is given."""
        from flodl.graph import pictures

        return pictures.svg(self, path, depth=depth, fold=fold)

    def svg_with_profile(self, path: Target | None = None, *, depth: int = 0) -> str:
        """Return the picture coloured by the times of the last forward."""
        from flodl.graph import pictures

        return pictures.svg_with_profile(self, path, depth=depth)

    def dot_with_profile(self) -> str:
        """Return the graph with the times of the last forward in the DOT language."""
        from flodl.graph import pictures

        return pictures.dot_with_profile(self)

    def heat_map(
        self,
        measure: Measure,
        *inputs: Any,
        path: Target | None = None,
        depth: int = 0,
        **named: Any,
    ) -> str:
        """Run a copy and return the picture coloured by `backward` time or by `memory`."""
        from flodl.graph import pictures

        return pictures.heat_map(self, measure, *inputs, path=path, depth=depth, **named)

    def html(self, path: Target | None = None, *, depth: int = 0, fold: bool | None = None) -> str:
        """Return a page in which nested graphs open and close."""
        from flodl.graph import pictures

        return pictures.html(self, path, depth=depth, fold=fold)

    def mermaid(self, *, depth: int = 0, fold: bool | None = None) -> str:
        """Return the picture as a Mermaid flowchart."""
        from flodl.graph import pictures

        return pictures.mermaid(self, depth=depth, fold=fold)

    def _repr_svg_(self) -> str | None:
        """Return the picture for notebooks, nothing before the flow is recorded."""
        from flodl.graph import pictures

        return pictures.notebook_svg(self)

    # ---- the history of metrics as files --------------------------------------------------------

    def plot_html(self, path: Target, names: Names = ()) -> Path:
        """Write a page with a chart of metrics."""
        from flodl.graph import pictures

        return pictures.plot_html(self, path, names)

    def plot_timings_html(self, path: Target, tags: Names = ()) -> Path:
        """Write a page with a chart of the times of tagged steps."""
        from flodl.graph import pictures

        return pictures.plot_html(self, path, tags, "times")

    def export_trends(self, path: Target, names: Names = ()) -> Path:
        """Write metrics as CSV."""
        from flodl.graph import pictures

        return pictures.export_trends(self, path, names)

    def export_timing_trends(self, path: Target, tags: Names = ()) -> Path:
        """Write the times of tagged steps as CSV."""
        from flodl.graph import pictures

        return pictures.export_trends(self, path, tags, "times")

    def write_log(self, path: Target, total_epochs: int = 0, names: Names = ()) -> Path:
        """Write a line per epoch: metrics, duration, remaining time."""
        from flodl.graph import pictures

        return pictures.write_log(self, path, total_epochs, names)
