"""Training on several devices: share of the ideal on ranks of unequal speed, and what a window costs.

Run: `python benchmarks/scale.py [--json FILE]` (about a minute, one thread for each rank)

A unit is a real step of a 1 MB model; then its rank sleeps until the time of its speed is over. The ideal is
the sum of the speeds of all ranks. `DistributedDataParallel` trains under the same emulator in the same run:
it gives each rank as many batches, so it can reach 57 % at 10 and 25 ms; another figure means that the
machine is busy, or the emulator wrong. Policy Sync gives the numbers of one device, so an update of T
batches bounds its share: `predicted` is the best division of T without any cost.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from flodl import Trainer
from flodl.distributed import divide
from flodl.distributed.team import Team, launch

ROOT = Path(__file__).resolve().parents[1]
SPEEDS = (0.010, 0.025)
UPDATES = (2, 4, 7, 14, 28)
DDP_SHARE = 0.57
HEAD = ("| Run | Batches per update | Share of the ideal | Predicted |", "|---|---|---|---|")
COSTS = ("| Cost | Time |", "|---|---|")


def make_model() -> nn.Module:
    """Return a model of 1 MB."""
    return nn.Linear(512, 512, bias=False)


def make_optimizer(parameters: Any) -> torch.optim.Optimizer:
    """Return plain SGD."""
    return torch.optim.SGD(parameters, 1e-3)


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Return a loss."""
    return model(batch).square().mean()


@final
class Emulated:
    """A train function whose unit, backward included, takes as long as the speed of its rank says."""

    def __init__(self, speeds: tuple[float, ...]) -> None:
        self.speeds, self.seconds = speeds, 0.0

    def note_rank(self, training: Any) -> None:
        """Learn which rank this is."""
        self.seconds = self.speeds[training.rank]

    def __call__(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        deadline = time.perf_counter() + self.seconds
        return loss_of(model, _Until.apply(batch.clone().requires_grad_(), deadline))  # type: ignore[no-untyped-call]


@final
class _Until(torch.autograd.Function):
    """The identity, whose backward ends at a deadline; before the model, so that it is the last one."""

    @staticmethod
    def forward(ctx: Any, batch: torch.Tensor, deadline: float) -> torch.Tensor:
        ctx.deadline = deadline
        return batch.view_as(batch)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        time.sleep(max(0.0, ctx.deadline - time.perf_counter()))
        return gradient, None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: batches of an update, and shares from 0 to 1."""

    run: str
    accumulate: int
    share: float
    predicted: float


def train_sync(devices: int, accumulate: int, units: int, speeds: tuple[float, ...] = ()) -> Any:
    """Train two epochs of so many units, and return the metrics of the second; 0 devices is a plain loop."""
    train: Any = Emulated(speeds) if speeds else loss_of
    builder = Trainer.builder(make_model, make_optimizer, train).dataset(
        [torch.ones(4, 512)] * units
    )
    builder.num_epochs(2).accumulate(accumulate).seed(0).step("eager").progress(False)
    if speeds:
        builder.on("start", train.note_rank)
    if devices:
        builder.devices(["cpu"] * devices).policy("sync")
    return builder.run().join().history[-1]


def sync_row(accumulate: int, updates: int) -> Row:
    """Return the share of policy Sync with so many batches per update."""
    metrics = train_sync(len(SPEEDS), accumulate, accumulate * updates, SPEEDS)
    rate = metrics.steps / metrics.seconds
    counts = divide(accumulate, SPEEDS)
    best = accumulate / max(count * one for count, one in zip(counts, SPEEDS, strict=True))
    return Row(run="Sync", accumulate=accumulate, share=rate / _ideal(), predicted=best / _ideal())


def ddp_row(units: int) -> Row:
    """Return the share of `DistributedDataParallel`."""
    with tempfile.TemporaryDirectory() as folder:
        rates = launch(_train_ddp, units, folder, devices=len(SPEEDS), run_dir=folder).join()
    share = min(rates.values()) / _ideal()
    return Row(run="DDP", accumulate=len(SPEEDS), share=share, predicted=DDP_SHARE)


def _train_ddp(team: Team, units: int, folder: str) -> float:
    """Train as one rank of torch's own process group, and return the units per second of all ranks."""
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/ddp", rank=team.rank, world_size=len(SPEEDS)
    )
    model = nn.parallel.DistributedDataParallel(make_model())
    optimizer = make_optimizer(model.parameters())
    train = Emulated(SPEEDS)
    train.seconds = SPEEDS[team.rank]
    batch = torch.ones(4, 512)
    began = 0.0
    for step in range(units + 5):
        if step == 5:  # after the warm-up
            began = time.perf_counter()
        optimizer.zero_grad()
        train(model, batch).backward()
        optimizer.step()
    seconds = time.perf_counter() - began
    dist.destroy_process_group()
    return units * len(SPEEDS) / seconds


def costs(units: int) -> dict[str, float]:
    """Return the seconds that a window and a unit cost beyond the computation."""
    plain = train_sync(0, 2, units)
    alone = train_sync(1, 2, units)
    two = train_sync(2, 2, units)
    one = plain.seconds / plain.steps
    return {
        "one window of two ranks, 1 MB, beyond its slower unit": 2 * two.seconds / two.steps - one,
        "one unit of one rank, beyond the plain loop": alone.seconds / alone.steps - one,
    }


def _ideal() -> float:
    return sum(1 / one for one in SPEEDS)


def lines(rows: list[Row], found: dict[str, float]) -> list[str]:
    """Return the tables."""
    shown = [
        f"| {row.run} | {row.accumulate} | {row.share:.1%} | {row.predicted:.1%} |" for row in rows
    ]
    told = [f"| {name} | {1e3 * seconds:.2f} ms |" for name, seconds in found.items()]
    return [*HEAD, *shown, "", *COSTS, *told]


def _measured() -> dict[str, Any]:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "commit": done.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "versions": {"torch": version("torch")},
        "load": round(os.getloadavg()[0], 2),
        "cpus": os.cpu_count(),
    }


def main() -> None:
    """Measure, print, and write the result if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the result to a file")
    parser.add_argument("--updates", type=int, default=20, help="updates of each run")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    measured = _measured()
    rows = [ddp_row(4 * options.updates)]
    rows += [sync_row(each, options.updates) for each in UPDATES]
    found = costs(20 * options.updates)
    print("\n".join(lines(rows, found)))
    if options.json:
        result = {
            "measured": measured,
            "speeds": SPEEDS,
            "rows": [asdict(row) for row in rows],
            "costs": found,
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
