"""Host time, memory and build time of a graph's forward against the hand-written module.

Run: `python benchmarks/forward.py` (about 40 s, one thread).  All variants run in one process, in turn,
and every figure is the ratio to the hand-written module of the same round; medians over the rounds.

The model is a tower of 12 residual blocks (LayerNorm, Linear, GELU, Linear) of width 8: kernels that
cost next to nothing, so that what is left is the cost of calling them.
"""

from __future__ import annotations

import argparse
import functools
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import fx, nn

from flodl import Flow, FlowBuilder, FlowModule

BLOCKS = 12
WIDTH = 8


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(self.act(self.fc1(self.norm(x))))


class Tower(nn.Module):
    def __init__(self, width: int = WIDTH, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class BlockFlow(FlowModule):
    """The block as `fdl port` writes it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(width, width)

    def flow(self, x: Flow) -> Flow:
        return x.also((self.norm, self.fc1, self.act, self.fc2))


class TowerFlow(FlowModule):
    """The tower as `fdl port` writes it: blocks nested in a module list."""

    def __init__(self, width: int = WIDTH, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(BlockFlow(width) for _ in range(blocks))

    def flow(self, x: Flow) -> Flow:
        return x.through(self.blocks)


def built(width: int = WIDTH, blocks: int = BLOCKS) -> nn.Module:
    """The tower as one flat graph."""
    builder = FlowBuilder.new()
    for _ in range(blocks):
        builder = builder.also(
            (nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        )
    return builder.build()


VARIANTS: dict[str, Callable[..., nn.Module]] = {
    "hand-written": Tower,
    "flodl, ported classes": TowerFlow,
    "flodl, one flat graph": built,
    "torch.fx GraphModule": lambda *size: fx.symbolic_trace(Tower(*size)),
}


def equal_weights(models: dict[str, nn.Module]) -> None:
    """Give all variants the same weights, in parameter order."""
    source = list(models["hand-written"].parameters())
    with torch.no_grad():
        for model in models.values():
            for mine, theirs in zip(model.parameters(), source, strict=True):
                mine.copy_(theirs)


def seconds(action: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        action()
    return (time.perf_counter() - start) / repeats


def compare(rounds: int, repeats: int) -> None:
    models = {name: make() for name, make in VARIANTS.items()}
    equal_weights(models)
    x = torch.randn(4, WIDTH)
    expected = models["hand-written"](x)
    for name, model in models.items():
        assert torch.equal(model(x), expected), name
    modes: dict[str, Callable[[nn.Module], object]] = {
        "forward, no grad": lambda model: model(x),
        "forward": lambda model: model(x),
        "forward + backward": lambda model: model(x).sum().backward(),
    }
    print(f"{'':24}" + "".join(f"{mode:>28}" for mode in modes))
    table: dict[str, list[str]] = {name: [] for name in models}
    for mode, action in modes.items():
        times: dict[str, list[float]] = {name: [] for name in models}
        with torch.set_grad_enabled(mode != "forward, no grad"):
            for _ in range(rounds):
                for name, model in models.items():
                    times[name].append(seconds(functools.partial(action, model), repeats))
        base = times["hand-written"]
        for name, values in times.items():
            ratios = sorted(value / other for value, other in zip(values, base, strict=True))
            low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
            median = statistics.median(values) * 1e6
            table[name].append(
                f"{median:7.1f} us {statistics.median(ratios):.2f} [{low:.2f}-{high:.2f}]"
            )
    for name, cells in table.items():
        print(f"{name:24}" + "".join(f"{cell:>28}" for cell in cells))


def build_time() -> None:
    x = torch.randn(4, WIDTH)
    nodes = 5 * BLOCKS
    ways = ("builder", "classes, recorded without a call", "rerecorded")
    per_node: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(9):
        parts = [nn.Linear(WIDTH, WIDTH) for _ in range(nodes)]
        start = time.perf_counter()
        builder = FlowBuilder.new()
        for part in parts:
            builder = builder.through(part)
        builder.build()
        per_node["builder"].append((time.perf_counter() - start) / nodes)
        tower = TowerFlow()
        start = time.perf_counter()
        tower.rebuild()
        for block in tower.blocks:
            block.rebuild()
        per_node["classes, recorded without a call"].append((time.perf_counter() - start) / nodes)
        for module in (tower, *tower.blocks):
            for plans in module._flodl_plans.values():
                plans.clear()
        start = time.perf_counter()
        tower(x)
        per_node["rerecorded"].append((time.perf_counter() - start) / nodes)
    for name, values in per_node.items():
        print(f"build, {name}: {statistics.median(values) * 1e3:.3f} ms per node")


def peak_memory(name: str, grad: bool) -> float:
    """Return the growth of the process's peak memory in one forward of large activations, in MiB."""
    torch.manual_seed(0)
    with torch.set_grad_enabled(grad):
        model = VARIANTS[name](512, BLOCKS)
        model(torch.randn(8, 512))
        x = torch.randn(16384, 512)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        model(x)
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def compare_memory() -> None:
    for grad in (False, True):
        found = {}
        for name in VARIANTS:
            argv = [sys.executable, __file__, "--memory", name, *(["--grad"] if grad else [])]
            found[name] = float(
                subprocess.run(argv, check=True, capture_output=True, text=True).stdout
            )
        base = found["hand-written"]
        cells = ", ".join(f"{name} {value / base:.3f}" for name, value in found.items())
        print(f"peak memory {'with' if grad else 'without'} grad ({base:.0f} MiB = 1): {cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--memory", choices=list(VARIANTS), help="internal: measure one variant")
    parser.add_argument("--grad", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        print(peak_memory(options.memory, options.grad))
        return
    compare(options.rounds, options.repeats)
    build_time()
    compare_memory()


if __name__ == "__main__":
    main()
