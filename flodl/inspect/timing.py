"""Profile a model: switch timing on and off, read the last profile, collect times as trends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flodl.errors import GraphError
from flodl.graph.instrumentation import Watch
from flodl.graph.planned_module import PlannedModule
from flodl.graph.profiling import Profiler
from flodl.inspect import plain_profiling
from flodl.inspect.observation import log_of
from flodl.inspect.paths import tag_names
from flodl.inspect.plain_tags import existing
from flodl.observe.metrics import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import nn

    from flodl.graph.plan_cache import PlanCache
    from flodl.observe.profile import Clock, Profile, ProfileStats
    from flodl.observe.trend import Trend


def enable_profiling(module: nn.Module) -> None:
    """Time every node of every forward from now on, in this graph and those inside it.

    Of a plain module, every call of every submodule is timed.

    Args:
        module: a graph or a plain module.
    """
    clock = clock_of(module)
    if not isinstance(module, PlannedModule):
        plain_profiling.enable(module, clock)
        return
    for plans in _all_plans(module):
        plans.watched(Watch(plans.watch.tags, Profiler(clock), values=plans.watch.values))


def clock_of(module: nn.Module) -> Clock:
    """Return the clock that times a module: that of the host, unless a tensor of it lies on a GPU.

    Args:
        module: a graph or a plain module.
    """
    on_device = any(each.is_cuda for each in (*module.parameters(), *module.buffers()))
    return "cuda events" if on_device else "host"


def disable_profiling(module: nn.Module) -> None:
    """Stop timing, and forget the last profile.

    Args:
        module: a graph or a plain module.
    """
    if not isinstance(module, PlannedModule):
        plain_profiling.disable(module)
        return
    for plans in _all_plans(module):
        plans.watched(Watch(plans.watch.tags, values=plans.watch.values))


def is_profiling(module: nn.Module) -> bool:
    """Return True if forwards are timed.

    Args:
        module: a graph or a plain module.
    """
    if not isinstance(module, PlannedModule):
        return plain_profiling.is_enabled(module)
    return any(plans.watch.profiler is not None for plans in module._flodl_plans.values())


def profile(module: nn.Module) -> Profile | None:
    """Return the times of the last forward; `None` without profiling or before a forward.

    The first call of a flow that has to see values is recorded, not timed.  A plain module has a row per
    submodule that was called.

    Args:
        module: a graph or a plain module.
    """
    if not isinstance(module, PlannedModule):
        return plain_profiling.profile(module)
    for plans in module._flodl_plans.values():
        profiler = plans.watch.profiler
        found = profiler.profile() if profiler is not None else None
        if found is not None:
            return found
    return None


def entry(module: PlannedModule, began: Any) -> float | None:
    """Return the seconds from a mark before the last forward of a flow to its first step.

    `None` if that forward was recorded, not timed.

    Args:
        module: a graph or flow module that is being profiled.
        began: what the clock gave when the module was called.
    """
    for plans in module._flodl_plans.values():
        profiler = plans.watch.profiler
        found = profiler.entry(began) if profiler is not None else None
        if found is not None:
            return found
    return None


def profile_stats(module: nn.Module) -> ProfileStats | None:
    """Return minimum and mean per node since profiling was enabled.

    The first three forwards of a plan are warm-up and left out; `None` until there is another one. If a
    flow has several plans, these are the times of the plan that ran last.

    Args:
        module: a graph or a plain module.
    """
    if not isinstance(module, PlannedModule):
        return plain_profiling.stats(module)
    for plans in module._flodl_plans.values():
        profiler = plans.watch.profiler
        found = profiler.stats() if profiler is not None else None
        if found is not None:
            return found
    return None


def timing_of(module: nn.Module, tag: str) -> float | None:
    """Return the seconds of a tagged node in the last forward; `None` before a profiled one.

    Args:
        module: a graph or a plain module.
        tag: one of its tags; of a plain module the dotted path of a submodule.

    Raises:
        UnknownNameError: the module has no such tag.
    """
    if not isinstance(module, PlannedModule):
        return plain_profiling.timing(module, tag)
    known = tag_names(module, internal=True)
    if tag not in known:
        raise unknown("tag", tag, known)
    found = profile(module)
    return None if found is None else found.timing(tag)


def collect_timings(module: nn.Module, tags: Iterable[str] = ()) -> None:
    """Record the times of tagged nodes of the last forward, in seconds.

    Args:
        module: a graph or a plain module that is being profiled.
        tags: tags; none for all.

    Raises:
        GraphError: there is no profile.
        UnknownNameError: the module has no such tag.
    """
    found = profile(module)
    if found is None:
        message = "there is no profile: enable_profiling(), then call the model"
        raise GraphError(message)
    log, tags = log_of(module, "times"), tuple(tags)
    if not isinstance(module, PlannedModule):
        tags = tags or tuple(row.id for row in found.nodes)
        log.declare(existing(module, tags))
    for tag in log.expand(tags) if tags else tag_names(module):
        seconds = timing_of(module, tag)
        if seconds is not None:
            log.record(tag, seconds)


def note_step(module: nn.Module) -> None:
    """Collect the times of all tagged nodes, if the graph is being profiled.

    Args:
        module: a graph.
    """
    if profile(module) is not None:
        collect_timings(module)


def note_epoch(module: nn.Module) -> None:
    """End the epoch of times, if the graph is being profiled.

    Args:
        module: a graph.
    """
    if is_profiling(module):
        flush_timings(module)


def flush_timings(module: nn.Module) -> None:
    """End the epoch of times: append the mean of each tagged node to its history.

    Args:
        module: a graph.
    """
    log_of(module, "times").flush()


def timing_trend(module: nn.Module, tag: str) -> Trend:
    """Return the course of the time of a tagged node, in seconds.

    Args:
        module: a graph.
        tag: one of its tags.

    Raises:
        UnknownNameError: the graph has no such tag.
    """
    return log_of(module, "times").trend(tag)


def _all_plans(module: nn.Module) -> Iterator[PlanCache]:
    for graph in module.modules():
        if isinstance(graph, PlannedModule):
            yield from graph._flodl_plans.values()
