"""Times of the nodes of a forward, noted by a variant of the generated code.

On the host a mark is one reading of the clock.  On a GPU, where a call returns before the work is done,
a mark is a CUDA event; nothing waits for the device until the profile is read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, final

import torch

from flodl.observe.profile import Clock, NodeTiming, Profile
from flodl.spec.graph import GraphSpec, node_refs

if TYPE_CHECKING:
    from collections.abc import Callable


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

    def marker(self, spec: GraphSpec, start: int = -1) -> Callable[[int], None]:
        """Return the function that code of a description calls after each node.

        Args:
            spec: the description.
            start: the node at which a side exit has left another plan, -1 for code that starts a
                forward.  The descriptions of both plans agree up to that node, so its marks stay.
        """
        note = self._cuda_event if self.clock == "cuda events" else time.perf_counter

        def mark(node: int) -> None:
            if node < 0:
                self._spec = spec
                if start < 0:
                    self._nodes, self._times = [], []
                node = start  # the plan that was left could not mark the node that it stopped at
            self._times.append(note())
            self._nodes.append(node)

        return mark

    @staticmethod
    def _cuda_event() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
        event.record()
        return event

    def forget(self) -> None:
        """Drop the marks of a forward that tracing has finished, which is not timed."""
        self._spec = None
        self._nodes, self._times = [], []

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

    def times(self) -> tuple[GraphSpec, dict[int, float]] | None:
        """Return the description that ran last and the seconds of its nodes."""
        if self._spec is None or len(self._times) < 2:
            return None
        return self._spec, dict(zip(self._nodes[1:], self._seconds(), strict=True))

    def _seconds(self) -> list[float]:
        pairs = zip(self._times[:-1], self._times[1:], strict=True)
        if self.clock == "host":
            return [after - before for before, after in pairs]
        self._times[-1].synchronize()
        return [before.elapsed_time(after) / 1e3 for before, after in pairs]


def levels_of(spec: GraphSpec) -> list[int]:
    """Return the topological depth of every node."""
    depth: list[int] = []
    for node in spec.nodes:
        depth.append(max((depth[ref] + 1 for ref in node_refs(node)), default=0))
    return depth
