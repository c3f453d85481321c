"""Training on several devices: share of the ideal on ranks of unequal speed, and what a window costs.

Run: `python benchmarks/scale.py [--json FILE]` (about four minutes, one thread for each rank)

A unit is a real step of a 1 MB model; then its rank waits until the time of its speed is over. The ideal is
the sum of the speeds of all ranks, from the first batch of an epoch to its end. `DistributedDataParallel`
and PostLocalSGD of torch train under the same emulator in the same run: they give each rank as many batches,
so they can reach 57 % at 10 and 25 ms; another figure means that the machine is busy, or the emulator wrong.
Policy Sync gives the numbers of one device, so an update of T batches bounds its share: its bar is the best
division of T without any cost. The bars of policies Cadence and Async are those that they have to reach.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.shared import conditions
from flodl import Trainer
from flodl.distributed import ApplyPolicy, ElChe, divide
from flodl.distributed.team import Team, launch

ROOT = Path(__file__).resolve().parents[1]
SPEEDS = (0.010, 0.025)
UPDATES = (2, 4, 7, 14, 28)
EQUAL_BATCHES = 0.57  # 2 batches in the 25 ms of the slower rank, of 3.5
PERIOD = 8  # steps between two averages of PostLocalSGD
CADENCE = {
    (0.010, 0.025): 0.93,
    (0.010, 0.010): 0.92,
    (0.005, 0.025): 0.93,
    (0.010, 0.100): 0.91,
    (0.010, 0.015, 0.025): 0.93,
}
ASYNC = {
    (0.010, 0.025): 0.96,
    (0.010, 0.010): 0.95,
    (0.005, 0.025): 0.96,
    (0.010, 0.100): 0.95,
    (0.010, 0.015, 0.025): 0.96,
}
BARS = {ApplyPolicy.CADENCE: CADENCE, ApplyPolicy.ASYNC: ASYNC}
SLOWER, SLOWS_AFTER, SLOWED_BAR = 10.0, 2.0, 0.80
REAL_RATIO, REAL_BAR = 2.5, 0.85
_GAP, _LATE = 1e-3, 3e-4  # seconds
HEAD = ("| Run | Time of a batch on each rank | Share of the ideal | Bar |", "|---|---|---|---|")
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
    """A train function whose unit takes as long as the speed of its rank says.

    Args:
        speeds: seconds of a unit on each rank.
        slows_after: seconds of an epoch after which the last rank is slower by `SLOWER`; 0 for never.
    """

    def __init__(self, speeds: tuple[float, ...], slows_after: float = 0.0) -> None:
        self.speeds, self.slows_after = speeds, slows_after
        self.rank = 0
        self.deadline = self.began = self.ended = 0.0
        self.in_backward = False

    def note_rank(self, training: Any) -> None:
        """Learn which rank this is."""
        self.rank = training.rank

    def note_epoch(self, epoch: int, training: Any) -> None:
        """Learn that an epoch begins."""
        del epoch, training
        self.began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds of a unit that begins now."""
        late = self.slows_after and time.perf_counter() - self.began > self.slows_after
        is_last = self.rank == len(self.speeds) - 1
        return self.speeds[self.rank] * (SLOWER if late and is_last else 1.0)

    def __call__(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        now = time.perf_counter()
        # Reading a batch and freeing gradients are parts of a unit; a window of waiting is none.
        self.deadline = (self.ended if now - self.ended < _GAP else now) + self.seconds
        if self.in_backward:
            batch = _Until.apply(batch.clone().requires_grad_(), self.deadline)  # type: ignore[no-untyped-call]
        return loss_of(model, batch)

    def wait(self, training: Any, loss: Any) -> None:
        """Sleep until the unit is over, its update included."""
        del training, loss
        _sleep_until(self.deadline)
        self.ended = time.perf_counter()


def _sleep_until(deadline: float) -> None:
    """Sleep, and look at the clock at the end: a sleep is late by tenths of a millisecond."""
    time.sleep(max(0.0, deadline - _LATE - time.perf_counter()))
    while time.perf_counter() < deadline:
        pass


@final
class _Until(torch.autograd.Function):
    """The identity, whose backward ends at a deadline; before the model, so that it is the last one.

    For units whose update is not their own: those of policy Sync, and of `DistributedDataParallel`.
    """

    @staticmethod
    def forward(ctx: Any, batch: torch.Tensor, deadline: float) -> torch.Tensor:
        ctx.deadline = deadline
        return batch.view_as(batch)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        _sleep_until(ctx.deadline)
        return gradient, None


@final
class Working:
    """A train function that computes: a rank of a larger number computes more for each unit."""

    def __init__(self, repeats: tuple[int, ...]) -> None:
        self.repeats, self.rank = repeats, 0
        self.weight = torch.randn(256, 256)

    def note_rank(self, training: Any) -> None:
        """Learn which rank this is."""
        self.rank = training.rank

    def __call__(self, model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        value = self.weight
        for _ in range(self.repeats[self.rank]):
            value = torch.tanh(value @ self.weight * 0.01)
        return loss_of(model, batch) + 0.0 * value.sum()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: seconds of a batch on each rank, and shares from 0 to 1."""

    run: str
    speeds: Sequence[float]
    share: float
    bar: float


def training(train: Any, units: int, ranks: int, epochs: int = 2) -> Any:
    """Return the builder of a training of so many units in an epoch."""
    batches = [torch.ones(4, 512)] * units
    made = Trainer.builder(make_model, make_optimizer, train).dataset(batches).num_epochs(epochs)
    made.seed(0).step("eager").progress(False)
    if train is not loss_of:
        made.on("start", train.note_rank)
    return made.devices(["cpu"] * ranks) if ranks else made


def sync_row(accumulate: int, updates: int) -> Row:
    """Return the share of policy Sync with so many batches per update."""
    train = Emulated(SPEEDS)
    train.in_backward = True
    made = training(train, accumulate * updates, len(SPEEDS)).accumulate(accumulate)
    metrics = made.policy("sync").run().join().history[-1]
    counts = divide(accumulate, SPEEDS)
    best = accumulate / max(count * one for count, one in zip(counts, SPEEDS, strict=True))
    rate = metrics.steps / metrics.seconds
    return Row(
        run=f"Sync, {accumulate} batches per update",
        speeds=SPEEDS,
        share=rate / _ideal(SPEEDS),
        bar=best / _ideal(SPEEDS),
    )


def averaging_row(policy: ApplyPolicy, speeds: tuple[float, ...], seconds: float) -> Row:
    """Return the share of policy Cadence or Async, first window included."""
    train = Emulated(speeds)
    made = training(train, int(seconds * _ideal(speeds)), len(speeds), epochs=1)
    metrics = made.on("step", train.wait).policy(policy).run().join().history[-1]
    share = metrics.steps / metrics.seconds / _ideal(speeds)
    return Row(run=policy.capitalize(), speeds=speeds, share=share, bar=BARS[policy][speeds])


def slowed_row(seconds: float) -> Row:
    """Return the share of policy Cadence where a rank slows down in the middle."""
    train = Emulated(SPEEDS, SLOWS_AFTER)
    after = 1 / SPEEDS[0] + 1 / (SLOWER * SPEEDS[1])
    before = SLOWS_AFTER * _ideal(SPEEDS)
    units = int(before + seconds * after)
    made = training(train, units, len(SPEEDS), epochs=1).on("epoch_start", train.note_epoch)
    metrics = made.on("step", train.wait).policy("cadence").run().join().history[-1]
    ideal = SLOWS_AFTER + (units - before) / after
    run = f"Cadence, rank 1 slows {SLOWER:.0f}x after {SLOWS_AFTER:.0f} s"
    return Row(run=run, speeds=SPEEDS, share=ideal / metrics.seconds, bar=SLOWED_BAR)


def real_row(seconds: float) -> Row:
    """Return the share of policy Cadence on ranks that compute, beside what each does alone."""
    repeats = (20, int(20 * REAL_RATIO))
    alone = []
    for each in repeats:
        metrics = training(Working((each,)), int(40 / each * 20), 0).run().join().history[-1]
        alone.append(metrics.seconds / metrics.steps)
    units = int(seconds * sum(1 / one for one in alone))
    made = training(Working(repeats), units, 2, epochs=1).policy("cadence")
    metrics = made.run().join().history[-1]
    share = metrics.steps / metrics.seconds / _ideal(alone)
    return Row(run="Cadence, real computation", speeds=alone, share=share, bar=REAL_BAR)


def ddp_row(units: int, *, is_local: bool = False) -> Row:
    """Return the share of `DistributedDataParallel`, or of PostLocalSGD."""
    with tempfile.TemporaryDirectory() as folder:
        job = launch(_train_ddp, units, folder, is_local, devices=len(SPEEDS), run_dir=folder)
        rates = job.join()
    return Row(
        run=f"PostLocalSGD, period {PERIOD}" if is_local else "DDP",
        speeds=SPEEDS,
        share=min(rates.values()) / _ideal(SPEEDS),
        bar=EQUAL_BATCHES,
    )


def _train_ddp(team: Team, units: int, folder: str, is_local: bool) -> float:
    """Train as one rank of torch's own process group, and return the units per second of all ranks."""
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/ddp", rank=team.rank, world_size=len(SPEEDS)
    )
    model = nn.parallel.DistributedDataParallel(make_model())
    optimizer = make_optimizer(model.parameters())
    averager = None
    if is_local:
        alone, _ = dist.new_subgroups(1)
        state = post.PostLocalSGDState(None, alone, start_localSGD_iter=0)
        model.register_comm_hook(state, post.post_localSGD_hook)
        averager = PeriodicModelAverager(period=PERIOD)
    train = Emulated(SPEEDS)
    train.rank, train.in_backward = team.rank, True
    batch = torch.ones(4, 512)
    began = 0.0
    for step in range(units + 5):
        if step == 5:  # after the warm-up
            began = time.perf_counter()
        optimizer.zero_grad()
        train(model, batch).backward()
        optimizer.step()
        if averager is not None:
            averager.average_parameters(model.parameters())
    dist.barrier()
    seconds = time.perf_counter() - began
    dist.destroy_process_group()
    return units * len(SPEEDS) / seconds


def costs(units: int) -> dict[str, float]:
    """Return the seconds that a window and a unit cost beyond the computation."""
    plain = _per_step(training(loss_of, units, 0).accumulate(2))
    sync = _per_step(training(loss_of, units, 1).accumulate(2).policy("sync"))
    two = _per_step(training(loss_of, units, 2).accumulate(2).policy("sync"))
    one = _per_step(training(loss_of, units, 0))
    single = training(loss_of, units, 2).policy("cadence").el_che(ElChe().max_batch_diff(0))
    single.el_che(ElChe(max_anchor=1).max_batch_diff(0))
    apart = training(loss_of, 20 * units, 2).policy("cadence").run().join().history[-1]
    busy = sum(each.busy for each in apart.per_rank) / apart.steps
    return {
        "Sync: a window of two ranks, 1 MB, beyond its slower unit": 2 * two - plain,
        "Sync: a unit of one rank, beyond the plain loop": sync - plain,
        "Cadence: a window of two ranks, 1 MB, beyond its slower unit": 2 * _per_step(single)
        - one,
        "Cadence: a unit of two ranks, beyond the plain loop": busy - one,
    }


def _per_step(made: Any) -> float:
    metrics = made.run().join().history[-1]
    seconds: float = metrics.seconds / metrics.steps
    return seconds


def _ideal(speeds: Sequence[float]) -> float:
    return sum(1 / one for one in speeds)


def lines(rows: list[Row], found: dict[str, float]) -> list[str]:
    """Return the tables."""
    shown = [
        f"| {row.run} | {', '.join(f'{1e3 * one:.0f}' for one in row.speeds)} ms "
        f"| {row.share:.1%} | {row.bar:.0%} |"
        for row in rows
    ]
    told = [f"| {name} | {1e3 * seconds:.2f} ms |" for name, seconds in found.items()]
    return [*HEAD, *shown, "", *COSTS, *told]


def main() -> None:
    """Measure, print, and write the result if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the result to a file")
    parser.add_argument("--updates", type=int, default=20, help="updates of each run of Sync")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of each run of Cadence")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    before = conditions.measured("torch")
    rows = [ddp_row(4 * options.updates), ddp_row(4 * options.updates, is_local=True)]
    rows += [sync_row(each, options.updates) for each in UPDATES]
    rows += [
        averaging_row(policy, speeds, options.seconds)
        for policy, bars in BARS.items()
        for speeds in bars
    ]
    rows += [slowed_row(options.seconds), real_row(options.seconds)]
    found = costs(20 * options.updates)
    print("\n".join(lines(rows, found)))
    if options.json:
        result = {
            "measured": conditions.ended(before),
            "rows": [asdict(row) for row in rows],
            "costs": found,
        }
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
