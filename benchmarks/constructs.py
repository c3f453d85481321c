"""What gates, fixed loops, tags, guards, profiles and descriptions cost against the same by hand.

Run: `python benchmarks/constructs.py` (about 20 s, one thread).  All variants of a construct run in one
process, in turn; every figure is the ratio to the hand-written one of the same round, median over rounds.
Bars: gate at most 1.0 of stack-and-sum, loop at most 0.95 of a Python loop, a tag at most 1 us, a guard at
most 0.3 us, and all guards together at most 5 % of a forward of 12 layers.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule, Graph, SoftmaxRouter, view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WIDTH = 8
EXPERTS = 4
TURNS = 8
LAYERS, LAYER_WIDTH, HEADS = 12, 128, 4
TAGS = 16
# A program that has imported transformers has this many kinds of modules.
LOADED = 3000


class GateByHand(nn.Module):
    """A mixture of experts as it is usually written: stack all outputs, weight, sum."""

    def __init__(self) -> None:
        super().__init__()
        self.router = SoftmaxRouter(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.router(x)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        return (outputs * weights.unsqueeze(-1)).sum(dim=1)


class LoopByHand(nn.Module):
    """One block applied a fixed number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(TURNS):
            x = self.body(x)
        return x


def gate_graph(twin: GateByHand) -> Graph:
    """The gate over the very modules of its twin."""
    return FlowBuilder.new().gate(twin.router, list(twin.experts)).build()


def loop_graph(twin: LoopByHand) -> Graph:
    """The loop over the very module of its twin."""
    return FlowBuilder.new().loop_body(twin.body).for_n(TURNS).build()


def chain(*, tagged: bool) -> Graph:
    """A chain of cheap nodes, each tagged or none."""
    builder = FlowBuilder.new()
    for number in range(TAGS):
        builder = builder.through(torch.neg)
        if tagged:
            builder = builder.tag(f"value_{number}")
    return builder.build()


class Block(FlowModule):
    """A block that is described when it is built."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())

    def flow(self, x: Flow) -> Flow:
        return x.through(self.body).also(x)


@dataclass
class Settings:
    """What a transformer reads of its configuration in every layer."""

    heads: int = HEADS
    scale: float = 0.5
    drop: float = 0.0
    activation: str = "gelu"
    causal: bool = False
    pre_norm: bool = True
    bias: float | None = None
    table: dict[str, float] = field(default_factory=lambda: {"attention": 1.0, "mlp": 1.0})

    @property
    def head_width(self) -> int:
        return LAYER_WIDTH // self.heads


class Attention(FlowModule):
    """Attention that asks its settings as layers of transformers do."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.qkv = nn.Linear(LAYER_WIDTH, 3 * LAYER_WIDTH)
        self.out = nn.Linear(LAYER_WIDTH, LAYER_WIDTH)

    def flow(self, x: Flow) -> Flow:
        settings = self.settings
        batch, length, _ = x.size()
        qkv = x.through(self.qkv).view(batch, length, 3, settings.heads, settings.head_width)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if settings.bias is not None:
            k = k + settings.bias
        y = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, dropout_p=settings.drop, is_causal=settings.causal
        )
        return (
            y.transpose(1, 2).reshape(batch, length, -1).through(self.out)
            * settings.table["attention"]
        )


class Layer(FlowModule):
    """A layer of a transformer."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.attention = Attention(settings)
        self.norms = nn.ModuleList([nn.LayerNorm(LAYER_WIDTH) for _ in range(2)])
        self.up = nn.Linear(LAYER_WIDTH, 4 * LAYER_WIDTH)
        self.down = nn.Linear(4 * LAYER_WIDTH, LAYER_WIDTH)

    def flow(self, x: Flow) -> Flow:
        first, second = self.norms
        x = x + (x.through(first) if self.settings.pre_norm else x).through(self.attention)
        act = torch.nn.functional.gelu if self.settings.activation == "gelu" else torch.relu
        y = x.through(second).through(self.up).through(act).through(self.down)
        return x + y * self.settings.table["mlp"]


class Encoder(FlowModule):
    """A transformer whose layers share one configuration."""

    def __init__(self) -> None:
        super().__init__()
        settings = Settings()
        self.layers = nn.ModuleList([Layer(settings) for _ in range(LAYERS)])

    def flow(self, x: Flow) -> Flow:
        return x.through(self.layers)


def asking(model: nn.Module) -> tuple[Callable[[], object], Callable[[], object], int]:
    """Return what asks all guards of all plans, the same loop without guards, and their number."""
    asked, bare, count = [], [], 0
    for module in model.modules():
        for plans in getattr(module, "_flodl_plans", {}).values():
            for program in plans.programs:
                namespace = program.namespace()
                checks = " and ".join(program.spec.checks) or "True"
                exec(f"def asks(self): return {checks}\ndef empty(self): return True", namespace)
                assert namespace["asks"](module), checks
                asked.append((namespace["asks"], module))
                bare.append((namespace["empty"], module))
                count += len(program.spec.checks)
    return lambda: [f(m) for f, m in asked], lambda: [f(m) for f, m in bare], count


def guards(rounds: int, repeats: int) -> None:
    """Print what a guard costs, and the share of all guards in a forward of 12 layers."""
    x = torch.randn(4, 32, LAYER_WIDTH)
    with torch.no_grad():
        model = Encoder().eval()
        model(x)
        asks, empty, count = asking(model)
        times = measure(
            {"asks": asks, "empty": empty, "forward": lambda: model(x)}, rounds, repeats
        )
    costs = [one - other for one, other in zip(times["asks"], times["empty"], strict=True)]
    cost = statistics.median(costs)
    share = statistics.median([c / f for c, f in zip(costs, times["forward"], strict=True)])
    print(
        f"one guard of {count}: {cost / count * 1e6:.2f} us; "
        f"all guards: {share:.2%} of {LAYERS} layers"
    )


def seconds(action: Callable[[], object], repeats: int) -> float:
    """Return the mean seconds of one call."""
    start = time.perf_counter()
    for _ in range(repeats):
        action()
    return (time.perf_counter() - start) / repeats


def measure(
    variants: Mapping[str, Callable[[], object]], rounds: int, repeats: int
) -> dict[str, list[float]]:
    """Return the seconds of each variant by round; rounds alternate, so that noise hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, action in variants.items():
            times[name].append(seconds(action, repeats))
    return times


def ratio(times: Mapping[str, list[float]], name: str, base: str) -> str:
    """Return the median ratio with its tenth and ninetieth percentile."""
    found = sorted(one / other for one, other in zip(times[name], times[base], strict=True))
    low, high = found[len(found) // 10], found[-1 - len(found) // 10]
    return f"{statistics.median(found):.2f} [{low:.2f}-{high:.2f}]"


def against_twins(rounds: int, repeats: int) -> None:
    """Print gate and loop against their twins, with and without gradients."""
    x = torch.randn(4, WIDTH)
    gate, loop = GateByHand(), LoopByHand()
    for name, twin, graph in (
        ("gate", gate, gate_graph(gate)),
        ("loop", loop, loop_graph(loop)),
    ):
        torch.testing.assert_close(graph(x), twin(x))
        for mode in (False, True):
            with torch.set_grad_enabled(mode):
                times = measure(
                    {"twin": lambda m=twin: m(x), "graph": lambda m=graph: m(x)}, rounds, repeats
                )
            print(
                f"{name}, {'with' if mode else 'without'} gradients: {ratio(times, 'graph', 'twin')}"
            )


def observation(rounds: int, repeats: int) -> None:
    """Print what a tag costs, and what a profile leaves behind once it is off."""
    x = torch.randn(4)
    plain, tagged = chain(tagged=False), chain(tagged=True)
    profiled = chain(tagged=False)
    profiled(x)
    view(profiled).enable_profiling()
    profiled(x)
    view(profiled).disable_profiling()
    times = measure(
        {"plain": lambda: plain(x), "tagged": lambda: tagged(x), "profiled": lambda: profiled(x)},
        rounds,
        repeats,
    )
    costs = [(a - b) / TAGS for a, b in zip(times["tagged"], times["plain"], strict=True)]
    print(f"one tag: {statistics.median(costs) * 1e6:.2f} us")
    print(f"profiling off again: {ratio(times, 'profiled', 'plain')}")


def building(rounds: int) -> None:
    """Print what a description adds to building a block, before and after many modules are loaded."""
    for loaded in (0, LOADED):
        kinds = [type(f"Loaded{number}", (nn.Module,), {}) for number in range(loaded)]
        times = measure({"twin": LoopByHand, "block": Block}, rounds, 20)
        costs = [a - b for a, b in zip(times["block"], times["twin"], strict=True)]
        milliseconds = statistics.median(costs) * 1e3
        print(f"describing a block, {len(kinds)} other classes: {milliseconds:.2f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--repeats", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    against_twins(arguments.rounds, arguments.repeats)
    observation(arguments.rounds, arguments.repeats)
    guards(arguments.rounds, max(1, arguments.repeats // 20))
    building(arguments.rounds)


if __name__ == "__main__":
    main()
