"""Pictures of a graph as text, and written to files on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.graph.planned_module import PlannedModule
from flodl.graph.texts import kinds_of, spec_of
from flodl.inspect.drawing import part_of
from flodl.inspect.facts.details import detailed
from flodl.inspect.heat import measured_part, profiled_part
from flodl.inspect.observation import log_of
from flodl.inspect.paths import specs_of
from flodl.ir.pretty import flow_text as text_of
from flodl.observe.export import csv_text, log_text, plot_text, write_text
from flodl.visual.assemble import View
from flodl.visual.dot import dot_of
from flodl.visual.mermaid import mermaid_text
from flodl.visual.page import html_text
from flodl.visual.svg import svg_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torch import nn

    from flodl.inspect.facts.tensor_values import Weights
    from flodl.inspect.heat import Measure
    from flodl.inspect.observation import Kind
    from flodl.visual.assemble import Direction

    Target = str | Path | None


def flow_text(module: nn.Module) -> str:
    """Return a module as text: its inputs, a line per step with its tags, and its output.

    Args:
        module: a graph whose flow has been recorded, or a plain module; see `plain_part`.

    Raises:
        NotRecordedError: the flow has not been recorded yet.
        GraphError: the module was compiled to TorchScript.

    Example:
        >>> import torch
        >>> from flodl.inspect.pictures import flow_text
        >>> print(flow_text(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())))
        Sequential(input)
          0 = Linear(input)
          1 = ReLU(0)
          return 1
    """
    if isinstance(module, PlannedModule):
        return text_of(spec_of(module), type(module).__name__, kinds_of(module))
    part = part_of(module)
    text = text_of(part.spec, type(module).__name__, part.kinds)
    return (
        f"{text}\n  # the order of the steps is unknown: {part.unknown}" if part.unknown else text
    )


def svg(
    module: nn.Module,
    path: Target = None,
    *,
    depth: int = 0,
    fold: bool | None = None,
    direction: Direction = "down",
) -> str:
    """Return the picture of a graph as SVG.

    Args:
        module: a graph.
        path: where to write it too.
        depth: the levels of nested graphs that are open.
        fold: whether repeated blocks are drawn once; by the size of the graph if not given.
        direction: the way from inputs to outputs, `down` or `right`.

    Raises:
        ValueError: there is no such direction.
        GraphError: the module is no graph, or its flow has not been recorded yet.
    """
    return _kept(
        svg_text(part_of(module), View(fold=fold, depth=depth, direction=direction)), path
    )


def html(
    module: nn.Module,
    path: Target = None,
    *,
    depth: int = 0,
    fold: bool | None = None,
    direction: Direction = "down",
    weights: Weights = "small",
) -> str:
    """Return the picture of a graph as a page in which nested graphs open and close.

    Args:
        module: a graph.
        path: where to write it too.
        depth: the levels of nested graphs that are open at first.
        fold: whether repeated blocks are drawn once; by the size of the graph if not given.
        direction: the way from inputs to outputs, `down` or `right`.
        weights: whose values the page holds: those of no tensor with `none`, of the smallest ones up to 1 MiB
            together with `small`, and up to 128 MiB together with `all`.

    Raises:
        ValueError: there is no such direction, or no such choice of tensors.
        GraphError: the module is no graph, or its flow has not been recorded yet.
    """
    look = View(fold=fold, depth=depth, direction=direction)
    return _kept(html_text(detailed(module, part_of(module), weights), look), path)


def mermaid(
    module: nn.Module,
    *,
    depth: int = 0,
    fold: bool | None = None,
    direction: Direction = "down",
) -> str:
    """Return the picture of a graph as a Mermaid flowchart for Markdown.

    Args:
        module: a graph.
        depth: the levels of nested graphs that are open.
        fold: whether repeated blocks are drawn once; by the size of the graph if not given.
        direction: the way from inputs to outputs, `down` or `right`.

    Raises:
        ValueError: there is no such direction.
        GraphError: the module is no graph, or its flow has not been recorded yet.
    """
    return mermaid_text(part_of(module), View(fold=fold, depth=depth, direction=direction))


def dot_with_profile(module: nn.Module) -> str:
    """Return a graph with the times of its last forward in the DOT language.

    Args:
        module: a graph that is being profiled.

    Raises:
        GraphError: there is no profile.
    """
    return dot_of(profiled_part(module))


def svg_with_profile(
    module: nn.Module, path: Target = None, *, depth: int = 0, direction: Direction = "down"
) -> str:
    """Return the picture of a graph as SVG, coloured by the times of its last forward.

    Args:
        module: a graph that is being profiled.
        path: where to write it too.
        depth: the levels of nested graphs that are open.
        direction: the way from inputs to outputs, `down` or `right`.

    Raises:
        ValueError: there is no such direction.
        GraphError: there is no profile.
    """
    look = View(depth=depth, direction=direction)
    return _kept(svg_text(profiled_part(module), look), path)


def heat_map(
    module: nn.Module,
    measure: Measure,
    *inputs: Any,
    path: Target = None,
    depth: int = 0,
    direction: Direction = "down",
    **named: Any,
) -> str:
    """Run a copy of a graph and return its picture, coloured by backward time or by memory.

    Args:
        module: a graph.
        measure: `backward` or `memory`.
        *inputs: example inputs, as for a call.
        path: where to write it too.
        depth: the levels of nested graphs that are open.
        direction: the way from inputs to outputs, `down` or `right`.
        **named: keyword inputs.

    Raises:
        ValueError: there is no such direction.
        GraphError: the module is no graph, or its output cannot be differentiated.
    """
    part = measured_part(module, measure, *inputs, **named)
    return _kept(svg_text(part, View(depth=depth, direction=direction)), path)


def notebook_svg(module: nn.Module) -> str | None:
    """Return the picture that a notebook shows, nothing before the flow is recorded.

    Args:
        module: a graph.
    """
    return svg(module) if any(True for _ in specs_of(module)) else None


# ---- the history of metrics ----------------------------------------------------------------------


def plot_html(
    module: nn.Module, path: str | Path, names: Iterable[str] = (), kind: Kind = "metrics"
) -> Path:
    """Write a page with a chart of metrics.

    Args:
        module: any module.
        path: the page.
        names: metrics or groups; none for all, sorted.
        kind: the metrics, or the times of tagged nodes.

    Raises:
        ValueError: there is no value yet.
        UnknownNameError: there is no such metric.
    """
    title = f"{type(module).__name__} {kind}"
    return write_text(path, plot_text(_columns(module, names, kind), title))


def export_trends(
    module: nn.Module, path: str | Path, names: Iterable[str] = (), kind: Kind = "metrics"
) -> Path:
    """Write metrics as CSV: the epoch from 1, then a column per metric.

    Args:
        module: any module.
        path: the file.
        names: metrics or groups; none for all, sorted.
        kind: the metrics, or the times of tagged nodes.

    Raises:
        UnknownNameError: there is no such metric.
    """
    return write_text(path, csv_text(_columns(module, names, kind)))


def write_log(
    module: nn.Module, path: str | Path, total_epochs: int = 0, names: Iterable[str] = ()
) -> Path:
    """Write a line per epoch: metrics, duration and remaining time.

    Args:
        module: any module.
        path: the file.
        total_epochs: the planned number of epochs; without it no remaining time is stated.
        names: metrics or groups; none for all.

    Raises:
        UnknownNameError: there is no such metric.
    """
    return write_text(path, log_text(log_of(module), total_epochs, names))


def _columns(module: nn.Module, names: Iterable[str], kind: Kind) -> dict[str, tuple[float, ...]]:
    log = log_of(module, kind)
    chosen = tuple(names)
    shown = log.expand(chosen) if chosen else tuple(sorted(log.names))
    return {name: log.history(name) for name in shown}


def _kept(text: str, path: Target) -> str:
    if path is not None:
        write_text(path, text)
    return text
