"""What a training loop costs per step over the same loop written by hand, beside other trainers.

Run: `python benchmarks/trainer.py` (about a minute, one thread).  Every loop trains the same 13-layer MLP of
width 8 with fused Adam on batches that are in memory already, so that what differs is the loop.  Loops run in
turn, round by round, in a random order.  Time is that of this process on a processor, and a figure is the
20th percentile over the rounds, so that other work on the machine disturbs less; `+-` is the median
deviation of the rounds.  On a busy machine `--layers 1` tells more: what a loop costs does not depend on the
model, but what a model costs hides it.

Other trainers are used if they can be imported.  `--install` puts them, without their torch, into a folder
of their own (`--peers DIR`), which is all this needs of the internet.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import nn

from flodl import Trainer

WIDTH, BATCH = 8, 8
BAR = 20.0  # microseconds per step
PACKAGES = (
    "pytorch-ignite", "lightning-fabric", "lightning-utilities", "accelerate", "huggingface-hub",
    "fsspec", "tqdm", "filelock", "safetensors", "psutil", "pyyaml", "numpy", "packaging",
    "typing-extensions", "httpx", "httpcore", "h11", "anyio", "certifi", "idna", "sniffio",
)  # fmt: skip

size = argparse.Namespace(layers=13)
Loop = Callable[[list[tuple[torch.Tensor, torch.Tensor]]], float]


def model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    layers = [
        part for _ in range(size.layers - 1) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())
    ]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)


def train_step(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


# ---- one loop per trainer; each returns the seconds of its steps ------------------------------------


def by_hand(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    model, optimizer = model_and_optimizer()
    began = time.process_time()
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = train_step(model, batch)
        loss.backward()
        optimizer.step()
    return time.process_time() - began


def flodl_trainer(batches: list[tuple[torch.Tensor, torch.Tensor]], **more: object) -> float:
    model, optimizer = model_and_optimizer()
    marks: list[float] = []
    trainer = Trainer(model, optimizer, train_step, step="eager", progress=False, **more)
    trainer.on("epoch_start", lambda *_: marks.append(time.process_time()))
    trainer.on("epoch", lambda *_: marks.append(time.process_time()))
    trainer.fit(batches, epochs=1)
    return marks[1] - marks[0]


def flodl_everything(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """A run directory, a schedule that moves with every step, and a progress line that goes nowhere."""
    from flodl import CosineScheduler

    with tempfile.TemporaryDirectory() as folder:
        schedule = CosineScheduler(1e-4, 1e-5, len(batches))
        return flodl_trainer(batches, run_dir=Path(folder) / "run", scheduler=schedule)


def flodl_session(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    model, optimizer = model_and_optimizer()
    session = Trainer.setup(model, optimizer)
    began = time.process_time()
    for batch in batches:
        loss = train_step(model, batch)
        loss.backward()
        session.step()
    return time.process_time() - began


def ignite(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    from ignite.engine import Engine, Events

    model, optimizer = model_and_optimizer()

    def update(engine: object, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        del engine
        optimizer.zero_grad(set_to_none=True)
        loss = train_step(model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    engine = Engine(update)
    marks: list[float] = []
    engine.add_event_handler(Events.EPOCH_STARTED, lambda: marks.append(time.process_time()))
    engine.add_event_handler(Events.EPOCH_COMPLETED, lambda: marks.append(time.process_time()))
    engine.run(batches, max_epochs=1)
    return marks[1] - marks[0]


def fabric(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    from lightning_fabric import Fabric

    engine = Fabric(accelerator="cpu", devices=1)
    model, optimizer = engine.setup(*model_and_optimizer())
    began = time.process_time()
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = train_step(model, batch)
        engine.backward(loss)
        optimizer.step()
    return time.process_time() - began


def accelerate(batches: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
    from accelerate import Accelerator

    engine = Accelerator(cpu=True)
    model, optimizer = engine.prepare(*model_and_optimizer())
    began = time.process_time()
    for batch in batches:
        with engine.accumulate(model):
            optimizer.zero_grad(set_to_none=True)
            loss = train_step(model, batch)
            engine.backward(loss)
            optimizer.step()
    return time.process_time() - began


LOOPS: dict[str, tuple[str, Loop]] = {
    "by hand": ("torch", by_hand),
    "flodl Trainer": ("flodl", flodl_trainer),
    "flodl Trainer, run on disk, schedule": ("flodl", flodl_everything),
    "flodl Trainer.setup": ("flodl", flodl_session),
    "ignite Engine": ("ignite", ignite),
    "Lightning Fabric": ("lightning_fabric", fabric),
    "Accelerate": ("accelerate", accelerate),
}

# ---- measuring -------------------------------------------------------------------------------------


def usable() -> Iterator[tuple[str, Loop]]:
    for name, (package, loop) in LOOPS.items():
        if importlib.util.find_spec(package) is None:
            print(f"left out: {name} ({package} cannot be imported; --install fetches it)")
            continue
        yield name, loop


def measure(rounds: int, steps: int) -> dict[str, list[float]]:
    batches = [(torch.randn(BATCH, WIDTH), torch.randn(BATCH, 1)) for _ in range(steps)]
    loops = dict(usable())
    for loop in loops.values():
        loop(batches[:50])  # imports and caches
    found: dict[str, list[float]] = {name: [] for name in loops}
    gc.disable()
    order, chance = list(loops), random.Random(0)
    for _ in range(rounds):
        gc.collect()
        by_hand(batches)  # whoever comes first would pay for the collection
        chance.shuffle(order)
        for name in order:
            found[name].append(loops[name](batches) / steps * 1e6)
    return found


def quantile(values: list[float]) -> float:
    return statistics.quantiles(values, n=5)[0]


def spread(values: list[float]) -> float:
    middle = statistics.median(values)
    return statistics.median(abs(each - middle) for each in values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--layers", type=int, default=13, help="layers of the network")
    parser.add_argument("--peers", type=Path, default=Path(tempfile.gettempdir()) / "flodl-peers")
    parser.add_argument("--install", action="store_true", help="fetch the other trainers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size.layers = options.layers
    if options.install:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        subprocess.run([*command, "--target", str(options.peers), *PACKAGES], check=True)
    sys.path.append(str(options.peers))
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    found = measure(options.rounds, options.steps)
    base = quantile(found["by hand"])
    rows = {}
    for name, values in found.items():
        rows[name] = {
            "us_per_step": round(quantile(values), 1),
            "over_by_hand": round(quantile(values) - base, 1),
            "spread": round(spread(values), 1),
        }
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"{'':38}{'us/step':>9}{'over':>8}{'+-':>7}")
        for name, row in rows.items():
            print(f"{name:38}{row['us_per_step']:9}{row['over_by_hand']:8}{row['spread']:7}")
    cost = rows["flodl Trainer"]["over_by_hand"]
    print(
        f"bar: flodl Trainer at most {BAR:g} us over the loop by hand: {'yes' if cost <= BAR else 'NO'}"
    )
    return 0 if cost <= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
