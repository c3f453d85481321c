"""Times of a forward and of many, node by node and level by level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from flodl.observe.duration import short_time

Clock = Literal["host", "cuda events"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTiming:
    """The time of one node, in seconds; `level` is its topological depth.

    A row of a plain module is a submodule: `id` is its dotted path, `level` how deep it is nested, `kind` its
    class, and `duration` the time of all its `calls` in the forward.

    Example:
        >>> from flodl.observe.profile import NodeTiming
        >>> NodeTiming(id="relu_1", index=3, tags=("active",), duration=0.002, level=1).duration
        0.002
    """

    id: str
    index: int
    tags: tuple[str, ...]
    duration: float
    level: int
    kind: str = ""
    calls: int = 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LevelTiming:
    """The nodes of one topological depth, which nothing forces to run one after the other.

    Attributes:
        index: the depth.
        longest: the time of its slowest node, in seconds; that of the level in parallel.
        sum_nodes: the time of all its nodes.
        num_nodes: how many there are.

    Example:
        >>> from flodl.observe.profile import LevelTiming
        >>> LevelTiming(index=1, longest=0.003, sum_nodes=0.006, num_nodes=3).parallelism
        2.0
    """

    index: int
    longest: float
    sum_nodes: float
    num_nodes: int

    @property
    def parallelism(self) -> float:
        """How many times faster the level could run in parallel; 1 for a single node."""
        return self.sum_nodes / self.longest if self.num_nodes > 1 and self.longest else 1.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The times of one forward.

    Attributes:
        total: the time of the whole forward, in seconds.
        nodes: the nodes, in execution order.
        clock: how time was measured: on the host, or on the device by CUDA events.
        is_nested: whether nodes lie within others, as the submodules of a plain module do.

    Example:
        >>> from flodl.observe.profile import NodeTiming, Profile
        >>> node = NodeTiming(id="relu_1", index=1, tags=("active",), duration=0.002, level=1)
        >>> print(Profile(total=0.002, nodes=(node,), clock="host"))
        forward: 2.00ms (host clock)
        level 1: 2.00ms
          relu_1 #active: 2.00ms
    """

    total: float
    nodes: tuple[NodeTiming, ...]
    clock: Clock
    is_nested: bool = False

    @property
    def levels(self) -> tuple[LevelTiming, ...]:
        """The nodes grouped by topological depth; none for a plain module, whose wiring is not known."""
        if self.is_nested:
            return ()
        grouped: dict[int, list[float]] = {}
        for node in self.nodes:
            grouped.setdefault(node.level, []).append(node.duration)
        return tuple(
            LevelTiming(
                index=level, longest=max(times), sum_nodes=sum(times), num_nodes=len(times)
            )
            for level, times in sorted(grouped.items())
        )

    def timing(self, name: str) -> float | None:
        """Return the seconds of a node, by tag or by name; `None` if there is none such."""
        for node in self.nodes:
            if name == node.id or name in node.tags:
                return node.duration
        return None

    def __str__(self) -> str:
        lines = [f"forward: {short_time(self.total)} ({self.clock} clock)"]
        if self.is_nested:
            lines += [f"{'  ' * (node.level + 1)}{_nested_text(node)}" for node in self.nodes]
        for level in self.levels:
            parallel = f", x{level.parallelism:.1f} parallel" if level.num_nodes > 1 else ""
            lines.append(f"level {level.index}: {short_time(level.sum_nodes)}{parallel}")
            for node in self.nodes:
                if node.level == level.index:
                    tags = "".join(f" #{tag}" for tag in node.tags)
                    lines.append(f"  {node.id}{tags}: {short_time(node.duration)}")
        return "\n".join(lines)


def _nested_text(node: NodeTiming) -> str:
    calls = f" in {node.calls} calls" if node.calls > 1 else ""
    return f"{node.id} ({node.kind}): {short_time(node.duration)}{calls}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStats:
    """The times of one node over several forwards, in seconds.

    Attributes:
        id: its name.
        index: its place in the description.
        tags: its tags.
        level: its topological depth.
        passes: how many forwards reached it.
        min: the shortest time: the cost without what else the machine did.
        mean: the mean time.
        kind: the class of a submodule of a plain module, else empty.

    Example:
        >>> from flodl import NodeStats
        >>> node = NodeStats(id="relu_1", index=1, tags=(), level=1, passes=8, min=0.002, mean=0.003)
        >>> print(node)
        relu_1: min 2.00ms, mean 3.00ms
    """

    id: str
    index: int
    tags: tuple[str, ...]
    level: int
    passes: int
    min: float
    mean: float
    kind: str = ""

    def __str__(self) -> str:
        tags = "".join(f" #{tag}" for tag in self.tags)
        return f"{self.id}{tags}: min {short_time(self.min)}, mean {short_time(self.mean)}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileStats:
    """The times of the nodes of a graph over several forwards.

    Attributes:
        nodes: the nodes, in execution order.
        passes: how many forwards were measured.
        warm_up: how many forwards before them were left out.
        clock: how time was measured: on the host, or on the device by CUDA events.
        total: the mean time of a whole forward where nodes are nested, so that their sum says nothing.

    Example:
        >>> import torch
        >>> from flodl import FlowBuilder
        >>> graph = FlowBuilder.from_(torch.nn.Linear(4, 4)).tag("hidden").build()
        >>> graph.enable_profiling()
        >>> for _ in range(5):
        ...     _ = graph(torch.ones(1, 4))
        >>> stats = graph.profile_stats()
        >>> stats.passes, stats.warm_up, stats.node("hidden").passes
        (2, 3, 2)
    """

    nodes: tuple[NodeStats, ...]
    passes: int
    warm_up: int
    clock: Clock
    total: float | None = None

    @property
    def mean(self) -> float:
        """The mean time of a whole forward, in seconds: the sum of the nodes, unless they are nested."""
        if self.total is not None:
            return self.total
        return sum(node.mean for node in self.nodes)

    def node(self, name: str) -> NodeStats | None:
        """Return the times of a node, by tag or by name; `None` if there is none such."""
        for node in self.nodes:
            if name == node.id or name in node.tags:
                return node
        return None

    def __str__(self) -> str:
        head = f"mean of {self.passes} forwards: {short_time(self.mean)} ({self.clock} clock)"
        return "\n".join([head, *(f"  {node}" for node in self.nodes)])
