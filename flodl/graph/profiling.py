"""Times of the nodes of a forward, noted by a variant of the generated code.

On the host a mark is one reading of the clock.  On a GPU, where a call returns before the work is done,
a mark is a CUDA event; nothing waits for the device until the profile is read.
"""

from __future__ import annotations

import time
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import torch

from flodl.ir.graph import GraphSpec, node_refs
from flodl.observe.profile import Clock, NodeStats, NodeTiming, Profile, ProfileStats

if TYPE_CHECKING:
    from collections.abc import Callable

# The first passes of a plan fill caches, choose algorithms and reserve memory.
WARM_UP = 3
# Passes that wait for the statistics; more would hold marks, and events of the device, without an end.
MOST_WAITING = 64


@final
class Profiler:
    """Collects the marks of the last forward of one flow.

    Attributes:
        clock: which clock is read.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._spec: GraphSpec | None = None
        self._nodes: list[int] = []
        self._times: list[Any] = []
        self._is_counted = False
        self._waiting: deque[tuple[GraphSpec, list[int], list[Any]]] = deque()
        self._stats: dict[int, _Sums] = {}
        self._latest: _Sums | None = None

    def marker(self, spec: GraphSpec, start: int = -1) -> Callable[[int], None]:
        """Return the function that code of a description calls after each node.

        Args:
            spec: the description.
            start: the node at which a side exit has left another plan, -1 for code that starts a
                forward.  The descriptions of both plans agree up to that node, so its marks stay.
        """
        note = cuda_event if self.clock == "cuda events" else time.perf_counter

        def mark(node: int) -> None:
            if node < 0:
                if start < 0:
                    self._count()
                    self._nodes, self._times, self._is_counted = [], [], False
                self._spec = spec
                node = start  # the plan that was left could not mark the node that it stopped at
            self._times.append(note())
            self._nodes.append(node)

        return mark

    def forget(self) -> None:
        """Drop the marks of a forward that tracing has finished, which is not timed."""
        self._spec = None
        self._nodes, self._times = [], []

    def entry(self, began: Any) -> float | None:
        """Return the seconds from a mark before the last forward to its first step.

        Return `None` if that forward was recorded, so that the marks are of another one or gone.

        Args:
            began: what the clock gave when the forward was called.
        """
        if self._spec is None or len(self._times) < 2:
            return None
        seconds = self._seconds([began, *self._times])[0]
        return seconds if seconds >= 0 else None

    def profile(self) -> Profile | None:
        """Return the times of the last forward, `None` before the first one."""
        found = self.times()
        if found is None:
            return None
        spec, seconds = found
        levels = levels_of(spec)
        nodes = tuple(
            NodeTiming(
                id=spec.nodes[node].name,
                index=node,
                tags=spec.tags_of(node),
                duration=took,
                level=levels[node],
            )
            for node, took in seconds.items()
        )
        return Profile(total=sum(seconds.values()), nodes=nodes, clock=self.clock)

    def stats(self) -> ProfileStats | None:
        """Return minimum and mean over the passes of the description that was measured last.

        Its first `WARM_UP` passes are left out. Return `None` until there is another one.
        """
        self._count()
        self._add_up(wait=True)
        sums = self._latest
        return sums.stats(self.clock) if sums is not None and sums.passes > WARM_UP else None

    def _count(self) -> None:
        """Put the last pass aside for the statistics, once."""
        if self._spec is None or self._is_counted or len(self._times) < 2:
            return
        self._is_counted = True
        self._waiting.append((self._spec, self._nodes, self._times))
        self._add_up(wait=False)

    def _add_up(self, *, wait: bool) -> None:
        """Add up the passes that are put aside; without `wait`, those that the device has finished.

        Only many of them are worth the work: it happens within a forward, whose time it must not be.
        """
        if not wait and len(self._waiting) <= MOST_WAITING:
            return
        while self._waiting:
            spec, nodes, times = self._waiting[0]
            must_wait = wait or len(self._waiting) > MOST_WAITING
            if self.clock != "host" and not must_wait and not times[-1].query():
                return
            self._waiting.popleft()
            # The description is kept with its sums, so its id stays its own.
            self._latest = sums = self._stats.setdefault(id(spec), _Sums(spec))
            sums.add(nodes[1:], self._seconds(times))

    def times(self) -> tuple[GraphSpec, dict[int, float]] | None:
        """Return the description that ran last and the seconds of its nodes."""
        if self._spec is None or len(self._times) < 2:
            return None
        return self._spec, dict(zip(self._nodes[1:], self._seconds(self._times), strict=True))

    def _seconds(self, times: list[Any]) -> list[float]:
        pairs = pairwise(times)
        if self.clock == "host":
            return [after - before for before, after in pairs]
        times[-1].synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in pairs]


@final
class _Sums:
    """The times of all passes of one description, added up per node."""

    def __init__(self, spec: GraphSpec) -> None:
        self.passes = 0
        self._spec = spec
        self._count: dict[int, int] = {}
        self._sum: dict[int, float] = {}
        self._least: dict[int, float] = {}

    def add(self, nodes: list[int], seconds: list[float]) -> None:
        """Add a pass; a pass that an exception ended has fewer nodes, whose times count all the same."""
        self.passes += 1
        if self.passes <= WARM_UP:
            return
        for node, took in zip(nodes, seconds, strict=True):
            self._count[node] = self._count.get(node, 0) + 1
            self._sum[node] = self._sum.get(node, 0.0) + took
            self._least[node] = min(self._least.get(node, took), took)

    def stats(self, clock: Clock) -> ProfileStats:
        """Return the statistics, with the nodes in execution order."""
        levels = levels_of(self._spec)
        nodes = tuple(
            NodeStats(
                id=self._spec.nodes[node].name,
                index=node,
                tags=self._spec.tags_of(node),
                level=levels[node],
                passes=count,
                min=self._least[node],
                mean=self._sum[node] / count,
            )
            for node, count in sorted(self._count.items())
        )
        return ProfileStats(
            nodes=nodes, passes=self.passes - WARM_UP, warm_up=WARM_UP, clock=clock
        )


def cuda_event() -> torch.cuda.Event:
    """Return an event that the current stream reaches when all that was given to it is done."""
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
    event.record()
    return event


def levels_of(spec: GraphSpec) -> list[int]:
    """Return the topological depth of every node."""
    depth: list[int] = []
    for node in spec.nodes:
        depth.append(max((depth[ref] + 1 for ref in node_refs(node)), default=0))
    return depth
