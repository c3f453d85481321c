"""Measure drawing, tag capture and profiling; the exit code is 1 if a bar is missed.

Usage: `python benchmarks/pictures.py`.
"""

import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from flodl import Flow, FlowModule
from flodl.inspect.drawing import part_of
from flodl.inspect.observation import observe_tags
from flodl.inspect.paths import tag_names
from flodl.inspect.timing import disable_profiling, enable_profiling
from flodl.ir.graph import node_refs
from flodl.visual.assemble import View
from flodl.visual.page import html_text
from flodl.visual.svg import svg_text

BENCHMARK_GRAPH_MS = 50.0
THOUSAND_NODES_MS = 1000.0
TAG_US = 1.0
MARK_US = 2.0
KIB_PER_HUNDRED_NODES = 100.0


class Mlp(FlowModule):
    """A chain of layers."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))

    def flow(self, x: Flow) -> Flow:
        """Alternate layers and activations."""
        for layer in self.layers:
            x = x.through(layer).through(torch.relu)
        return x


class Residual(FlowModule):
    """Blocks of convolutions with a skip each, written out in one flow."""

    def __init__(self, blocks: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        sizes = [width for width in widths for _ in range(blocks)]
        before = [widths[0], *sizes[:-1]]
        self.convs = nn.ModuleList(
            nn.Conv2d(i, o, 3, padding=1) for i, o in zip(before, sizes, strict=True)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for o in sizes)
        self.skips = nn.ModuleList(
            nn.Identity() if i == o else nn.Conv2d(i, o, 1)
            for i, o in zip(before, sizes, strict=True)
        )

    def flow(self, x: Flow) -> Flow:
        """Add each block to its skip."""
        for conv, norm, skip in zip(self.convs, self.norms, self.skips, strict=True):
            x = (x.through(conv).through(norm) + x.through(skip)).through(F.relu)
        return x


class Attention(FlowModule):
    """Transformer blocks, written out in one flow."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2 * blocks))
        self.qkv = nn.ModuleList(nn.Linear(8, 24) for _ in range(blocks))
        self.out = nn.ModuleList(nn.Linear(8, 8) for _ in range(blocks))
        self.up = nn.ModuleList(nn.Linear(8, 32) for _ in range(blocks))
        self.down = nn.ModuleList(nn.Linear(32, 8) for _ in range(blocks))

    def flow(self, x: Flow) -> Flow:
        """Attend, then feed forward, with skips around both."""
        for block, qkv in enumerate(self.qkv):
            q, k, v = x.through(self.norms[2 * block]).through(qkv).split(8, dim=-1)
            a = (q @ k.transpose(-2, -1)).softmax(-1)
            x = x + (a @ v).through(self.out[block])
            y = x.through(self.norms[2 * block + 1]).through(self.up[block])
            x = x + y.through(F.gelu).through(self.down[block])
        return x


class UShape(FlowModule):
    """Long skips from the way down to the way up."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(8 + i, 9 + i) for i in range(depth))
        self.up = nn.ModuleList(nn.Linear(9 + i, 8 + i) for i in reversed(range(depth)))

    def flow(self, x: Flow) -> Flow:
        """Go down, then up with the values met on the way down."""
        kept = []
        for layer in self.down:
            kept.append(x)
            x = x.through(layer).through(F.silu)
        for layer, value in zip(self.up, reversed(kept), strict=True):
            x = x.through(layer) + value
        return x


class Dense(FlowModule):
    """Every step reads all earlier ones."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4 * (i + 1), 4) for i in range(depth))

    def flow(self, x: Flow) -> Flow:
        """Concatenate everything before each layer."""
        found = [x]
        for layer in self.layers:
            found.append(torch.cat(found, dim=-1).through(layer))
        return found[-1]


class Wide(FlowModule):
    """Many branches side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(8, 4 + i) for i in range(width))

    def flow(self, x: Flow) -> Flow:
        """Run every head and join them."""
        return torch.cat([x.through(head).through(torch.tanh) for head in self.heads], dim=-1)


class Nest(FlowModule):
    """Graphs in graphs."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Nest(depth - 1) if depth else Mlp(2)
        self.outer = Residual(2, (4,))

    def flow(self, x: Flow) -> Flow:
        """Run both."""
        return x.through(self.inner).through(self.outer)


GRAPHS: dict[str, Callable[[], FlowModule]] = {
    "mlp 10": lambda: Mlp(4),
    "mlp 64": lambda: Mlp(31),
    "resnet 2 x 4": lambda: Residual(2, (4, 8, 16, 32)),
    "resnet 9 x 3": lambda: Residual(9, (4, 8, 16)),
    "transformer 2": lambda: Attention(2),
    "transformer 12": lambda: Attention(12),
    "u shape 6": lambda: UShape(6),
    "dense 12": lambda: Dense(12),
    "wide 24": lambda: Wide(24),
    "nest 4": lambda: Nest(4),
}
LARGE: dict[str, tuple[Callable[[], FlowModule], View]] = {
    "transformer 56, folded": (lambda: Attention(56), View()),
    "transformer 56, whole": (lambda: Attention(56), View(fold=False)),
    "resnet 200, whole": (lambda: Residual(200, (4,)), View(fold=False)),
    "dense 330": (lambda: Dense(330), View()),
    "wide 500": (lambda: Wide(500), View()),
}


def milliseconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median processor time of some work."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append((time.process_time() - started) * 1e3)
    return statistics.median(times)


def drawing() -> int:
    """Print how long pictures take and how large they are; return the number of missed bars."""
    missed = 0
    print(f"{'graph':<26}{'nodes':>7}{'svg ms':>9}{'bar':>7}{'html ms':>9}{'KiB':>7}")
    cases = {name: (make, View(), BENCHMARK_GRAPH_MS, 5) for name, make in GRAPHS.items()}
    cases |= {name: (make, view, THOUSAND_NODES_MS, 3) for name, (make, view) in LARGE.items()}
    for name, (make, view, bar, rounds) in cases.items():
        part = part_of(make())
        count = len(part.spec.nodes)
        took = milliseconds(lambda part=part, view=view: svg_text(part, view), rounds)
        page = milliseconds(lambda part=part, view=view: html_text(part, view), 1)
        size = len(svg_text(part, view).encode()) / 1024
        # A dense graph has hundreds of links per node, and those are what fills its picture.
        links = sum(len(set(node_refs(node))) for node in part.spec.nodes)
        too_large = size > KIB_PER_HUNDRED_NODES * max(count, links / 10, 100) / 100
        verdict = "  missed" if took > bar or too_large else ""
        missed += bool(verdict)
        print(f"{name:<26}{count:>7}{took:>9.1f}{bar:>7.0f}{page:>9.1f}{size:>7.0f}{verdict}")
    return missed


class Tagged(FlowModule):
    """Twenty tagged steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(20))

    def flow(self, x: Flow) -> Flow:
        """Tag every step."""
        for number, layer in enumerate(self.layers):
            x = x.through(layer).tag(f"step_{number}")
        return x


def watching() -> int:
    """Print what a kept tag and a timed node cost; return the number of missed bars."""
    model, x = Tagged(), torch.ones(1, 8)
    model(x)

    def forward() -> float:
        started = time.process_time()
        for _ in range(300):
            model(x)
        return (time.process_time() - started) / 300 * 1e6

    best = {"nothing": float("inf"), "a kept tag": float("inf"), "a timed node": float("inf")}
    for _ in range(25):
        disable_profiling(model)
        observe_tags(model)
        best["nothing"] = min(best["nothing"], forward())
        observe_tags(model, *tag_names(model))
        best["a kept tag"] = min(best["a kept tag"], forward())
        observe_tags(model)
        enable_profiling(model)
        best["a timed node"] = min(best["a timed node"], forward())
    missed = 0
    for name, bar in (("a kept tag", TAG_US), ("a timed node", MARK_US)):
        cost = (best[name] - best["nothing"]) / 20
        verdict = "  missed" if cost > bar else ""
        missed += cost > bar
        print(f"{name:<26}{cost:>16.2f} us{bar:>7.1f}{verdict}")
    return missed


def main() -> int:
    """Run everything; return 1 if a bar is missed."""
    torch.set_num_threads(1)
    return 1 if drawing() + watching() else 0


if __name__ == "__main__":
    sys.exit(main())
