"""Cost of values by name, against forward hooks on the plain twin.

Run: `python benchmarks/values.py [ROUNDS]` (about 20 s, one thread). The model is a tower of 24 layers of
width 8 with a variable per layer; plain twin, port, hooks and observers run in turn, in one process. Printed
are medians over the rounds: the port with nothing observed against the port before it was ever observed (1.00
is no cost), and microseconds per value beyond the same call without it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import torch
from torch import nn

import flodl
from flodl import Flow, FlowModule

LAYERS = 24
WIDTH = 8
CALLS = 100


class PlainLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        act = torch.relu(self.lin(x))
        return x + act


class Layer(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(WIDTH, WIDTH)

    def flow(self, x: Flow) -> Flow:
        act = x.through(self.lin).through(torch.relu)
        return x + act


def tower(layer: type[nn.Module]) -> nn.Sequential:
    """Return the layers in a row."""
    torch.manual_seed(0)
    return nn.Sequential(*(layer() for _ in range(LAYERS)))


def same(value: object) -> object:
    """Replace a value by itself."""
    return value


def nothing(_name: str, _value: object) -> None:
    """Take a value, and do nothing."""


def timed(call: Callable[[], object]) -> float:
    """Return the microseconds of one call, on average."""
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - began) / CALLS * 1e6


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    torch.set_num_threads(1)
    x = torch.randn(2, WIDTH)
    plain, port, unseen = tower(PlainLayer), tower(Layer), tower(Layer)
    hooked = tower(PlainLayer)
    kept: dict[int, object] = {}
    for number, layer in enumerate(hooked):
        layer.register_forward_hook(lambda _m, _i, out, n=number: kept.update({n: out}))
    view = flodl.view(port)
    observed = {
        "captured variable": lambda: view.capture("*.act"),
        "captured output": lambda: view.capture("*"),
        "replaced variable": lambda: view.intervene({"*.act": same}),
        "callback": lambda: view.on("*.act", nothing),
    }
    costs: dict[str, list[float]] = {name: [] for name in ("forward hook", *observed)}
    unused: list[float] = []
    with torch.no_grad():
        for model in (plain, port, unseen, hooked):
            model(x)
        for _ in range(rounds):
            bare = timed(lambda: port(x))
            unused.append(bare / timed(lambda: unseen(x)))
            base = timed(lambda: plain(x))
            costs["forward hook"].append((timed(lambda: hooked(x)) - base) / LAYERS)
            for name, block in observed.items():
                with ExitStack() as stack:
                    cache = stack.enter_context(block())
                    port(x)
                    seen = timed(lambda: port(x))
                    if name.startswith("captured"):
                        cache.clear()
                costs[name].append((seen - bare) / LAYERS)
    print(f"unused, port against a port that was never observed: {statistics.median(unused):.3f}")
    for name, values in costs.items():
        print(f"{name:<20}{statistics.median(values):6.2f} us per value")


if __name__ == "__main__":
    main()
