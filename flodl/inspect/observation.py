"""Observe a model: tagged values become metrics, metrics become trends, over the whole tree.

Every function takes any `nn.Module`.  A module keeps its metrics with itself, so that copying or pickling
the model takes them along.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, final

import torch

from flodl.errors import GraphError, UnknownNameError
from flodl.graph.instrumentation import Watch
from flodl.graph.planned_module import PlannedModule
from flodl.inspect import plain_tags
from flodl.inspect.paths import (
    PathKind,
    find,
    module_at,
    specs_of,
    tag_names,
    tree_children,
)
from flodl.observe.metrics import MetricLog, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import nn

    from flodl.observe.trend import Mode, Trend, TrendGroup

_KEYS = {"metrics": "_flodl_metrics", "times": "_flodl_times"}
Kind = Literal["metrics", "times"]


@final
class Reduce(StrEnum):
    """The reduction of a tensor to one number.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> from flodl.inspect.observation import Reduce
        >>> graph = FlowBuilder.from_(torch.nn.Identity()).tag("values").build()
        >>> _ = graph(torch.tensor([3.0, 4.0]))
        >>> graph.collect(["values"], Reduce.NORM)
        >>> graph.collected("values")
        (5.0,)
    """

    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    NORM = "norm"


def log_of(module: nn.Module, kind: Kind = "metrics") -> MetricLog:
    """Return the metrics of one module, its tags declared.

    Args:
        module: any module.
        kind: the metrics, or the times of tagged nodes.
    """
    # The dictionary, because setting an attribute would make a FlowModule record again.
    log: MetricLog = module.__dict__.setdefault(_KEYS[kind], MetricLog())
    for spec in specs_of(module):
        log.declare(
            (tag.name for tag in spec.tags),
            {group.name: group.tags for group in spec.groups},
        )
    return log


# ---- tagged values -------------------------------------------------------------------------------


def observe_tags(module: nn.Module, *tags: str) -> None:
    """Keep the values of these tags only; without tags, of none.

    By default a graph keeps all and a plain module none.  The tags of a plain module are the dotted paths of
    its submodules; their outputs are copied, so that later steps in place do not show.

    Args:
        module: a graph or a plain module.
        *tags: names of its tags.

    Raises:
        UnknownNameError: the module has no such tag.
    """
    if not isinstance(module, PlannedModule):
        plain_tags.observe(module, tags)
        log_of(module).declare(tags)
        return
    known = tag_names(module, internal=True)
    for tag in tags:
        if tag not in known:
            raise unknown("tag", tag, known)
    for plans in module._flodl_plans.values():
        plans.watched(Watch(frozenset(tags), plans.watch.profiler, values=plans.watch.values))


def tagged(module: nn.Module, tag: str) -> Any:
    """Return the value that a tag had in the last forward, without its autograd graph.

    Args:
        module: a graph or a plain module.
        tag: the name of one of its tags; of a plain module the dotted path of an observed submodule.

    Returns:
        The value; `None` if no forward has computed it yet.

    Raises:
        UnknownNameError: the module has no such tag.
        GraphError: the submodule of a plain module is not observed.
    """
    if not isinstance(module, PlannedModule):
        return plain_tags.tagged(module, tag)
    found = _kept(module)
    if tag in found:
        return found[tag]
    known = tag_names(module, internal=True)
    if tag not in known:
        raise unknown("tag", tag, known)
    return None


def tagged_at(module: nn.Module, path: str) -> Any:
    """Return the value that the tag at a path had in the last forward.

    Args:
        module: where the path starts.
        path: the dotted path of a tag.

    Returns:
        The value; `None` if no forward has computed it yet.

    Raises:
        UnknownNameError: the path leads nowhere.
        GraphError: the path leads to a part of a graph, or to one of a plain module that is not observed.
    """
    place = find(module, path, PathKind.TAG)
    if not place.tag and path and not isinstance(module, PlannedModule):
        return plain_tags.tagged(module, path)
    if not place.tag:
        message = f"path `{path}` is a part of the model, not a tag: {_tags_text(place.module)}"
        raise GraphError(message)
    return tagged(place.module, place.tag)


def _kept(module: nn.Module) -> dict[str, Any]:
    if isinstance(module, PlannedModule):
        found: dict[str, Any] = {}
        for plans in module._flodl_plans.values():
            found |= plans.watch.kept.values
        return found
    return plain_tags.values_of(module)


# ---- metrics -------------------------------------------------------------------------------------


def collect(module: nn.Module, tags: Iterable[str], reduce: Reduce | str | None = None) -> None:
    """Record the tagged values of the last forward as metrics.

    Args:
        module: a graph, or a plain module with observed tags.
        tags: tags and tag groups.
        reduce: how a tensor becomes a number; without it every value must be a single number.

    Raises:
        UnknownNameError: the module has no such tag.
        GraphError: there is no value yet, or it is not a single number.
    """
    log, tags = log_of(module), tuple(tags)
    if not isinstance(module, PlannedModule):
        log.declare(plain_tags.existing(module, tags))
    for tag in log.expand(tags):
        value = tagged(module, tag)
        if value is None and not _kept(module):
            message = f"tag `{tag}` has no value yet: call the model before you collect"
            raise GraphError(message)
        if value is not None:
            log.record(tag, _number(tag, value, reduce))


def collect_at(
    module: nn.Module, paths: Iterable[str], reduce: Reduce | str | None = None
) -> None:
    """Record tagged values of parts of the model, each in the metrics of the part.

    Args:
        module: where the paths start.
        paths: dotted paths of tags.
        reduce: how a tensor becomes a number.

    Raises:
        UnknownNameError: a path leads nowhere.
        GraphError: a path leads to a part, or its value is not a single number.
    """
    for path in paths:
        place = find(module, path, PathKind.TAG)
        if not place.tag and path and not isinstance(module, PlannedModule):
            collect(module, [path], reduce)
            continue
        if not place.tag:
            message = (
                f"path `{path}` is a part of the model, not a tag: {_tags_text(place.module)}"
            )
            raise GraphError(message)
        collect(place.module, [place.tag], reduce)


def record_at(module: nn.Module, path: str, values: float | Iterable[float]) -> None:
    """Record values as a metric of a part; the last segment of the path is the name of the metric.

    Args:
        module: where the path starts.
        path: `metric`, or `part.of.the.model.metric`.
        values: a number or numbers.

    Raises:
        UnknownNameError: the path of the part leads nowhere.
    """
    part, metric = _owner(module, path)
    log_of(part).record(metric, values)


def trend_at(module: nn.Module, path: str, mode: Mode | None = None) -> Trend:
    """Return the course of a metric of a part.

    Args:
        module: where the path starts.
        path: `metric`, or `part.of.the.model.metric`.
        mode: whether lower or higher is better.

    Raises:
        UnknownNameError: the path leads nowhere, or the part has no such metric.
    """
    part, metric = _owner(module, path)
    return log_of(part).trend(metric, mode)


def trends(module: nn.Module, names: Iterable[str] = ()) -> TrendGroup:
    """Return the courses of metrics and groups of one module; of all if none is named.

    Args:
        module: any module.
        names: metrics or groups.

    Raises:
        UnknownNameError: there is no such metric.
    """
    return log_of(module).trends(names)


def flush(module: nn.Module, names: Iterable[str] = ()) -> dict[str, float]:
    """End the epoch in the whole tree: turn collected values into epoch means.

    Args:
        module: any module.
        names: metrics or groups, looked up in every part; none for all.

    Returns:
        The epoch means that were added, those of parts with their path.

    Raises:
        UnknownNameError: no part has such a metric.
    """
    chosen = tuple(names)
    missing = set(chosen)
    added: dict[str, float] = {}
    for prefix, log in _logs(module):
        own = tuple(name for name in chosen if _knows(log, name))
        missing -= set(own)
        if own or not chosen:
            added |= {prefix + name: log.history(name)[-1] for name in log.flush(own)}
    if missing:
        known = {name for _, log in _logs(module) for name in log.names}
        raise unknown("metric", min(missing), known)
    return added


@contextmanager
def observed_apart(module: nn.Module) -> Iterator[None]:
    """Keep what is collected inside out of the running epoch of the whole tree.

    Args:
        module: any module.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.Identity()).tag("value").build()
        >>> with observed_apart(graph):
        ...     _ = graph(torch.tensor(3.0))
        ...     graph.collect(["value"])
        >>> graph.collected("value")
        ()
    """
    before = {id(log): log.exchange({}) for _, log in _logs(module)}
    try:
        yield
    finally:
        for _, log in _logs(module):
            log.exchange(before.get(id(log), {}))


def latest_metrics(module: nn.Module) -> dict[str, float]:
    """Return the last epoch value of every metric in the tree, those of parts with their path.

    Args:
        module: any module.
    """
    return {
        prefix + name: value
        for prefix, log in _logs(module)
        for name, value in log.latest().items()
    }


def _logs(module: nn.Module) -> Iterator[tuple[str, MetricLog]]:
    """Yield the logs of the tree with the prefix of their metrics, labels instead of names."""
    return _logs_below(module, "", set())


def _logs_below(here: nn.Module, prefix: str, seen: set[int]) -> Iterator[tuple[str, MetricLog]]:
    if id(here) in seen:
        return
    seen.add(id(here))
    if not prefix or _KEYS["metrics"] in here.__dict__:
        yield prefix, log_of(here)
    for label, graph in tree_children(here).items():
        yield from _logs_below(graph, f"{prefix}{label}.", seen)
    for name, child in here.named_children():
        yield from _logs_below(child, f"{prefix}{name}.", seen)


def _knows(log: MetricLog, name: str) -> bool:
    try:
        log.expand([name])
    except UnknownNameError:
        return False
    return True


def _owner(module: nn.Module, path: str) -> tuple[nn.Module, str]:
    if not isinstance(module, PlannedModule) and path in log_of(module).declared:
        return module, path  # the tag of a plain module, which has dots
    parent, _, metric = path.rpartition(".")
    return module_at(module, parent, PathKind.SUBGRAPH), metric


def _number(tag: str, value: Any, reduce: Reduce | str | None) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, torch.Tensor):
        message = (
            f"tag `{tag}` is a {type(value).__name__}; only tensors and numbers can be collected"
        )
        raise GraphError(message)
    if value.numel() == 1:
        return float(value)
    if reduce is None:
        choices = ", ".join(f'"{each}"' for each in Reduce)
        message = (
            f"tag `{tag}` has shape {list(value.shape)}, not a single number; say how to reduce it: "
            f"collect([{tag!r}], reduce=...) with one of {choices}"
        )
        raise GraphError(message)
    if value.numel() == 0:
        message = f"tag `{tag}` has shape {list(value.shape)}: there is nothing to reduce"
        raise GraphError(message)
    return float(_reduced(value.float(), Reduce(reduce)))


def _reduced(value: torch.Tensor, reduce: Reduce) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(value)
    match reduce:
        case Reduce.MEAN:
            return value.mean()
        case Reduce.SUM:
            return value.sum()
        case Reduce.MAX:
            return value.max()
        case Reduce.MIN:
            return value.min()
        case Reduce.NORM:
            return norm


def _tags_text(module: nn.Module) -> str:
    tags = tag_names(module)
    return f"its tags are {', '.join(f'`{tag}`' for tag in tags)}" if tags else "it has no tags"
