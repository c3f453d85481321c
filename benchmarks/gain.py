"""Measure whole trainings: a plain loop, one with a fused optimizer, and a `Trainer` with `.step("auto")`.

Run: `python benchmarks/gain.py [--steps 200] [--rounds 5] [--model NAME]...`. Each training runs in a new
process with an empty folder of compiled steps, in turn within each round, and is measured from its first
line after the imports to its end: by the clock, and by the processor time of it and its children. A
figure is the median over the rounds of the ratio to the fused loop in that round, above 1 where `auto` is
faster. Use an otherwise idle machine; the exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.models.suite import CASES, Case
from flodl import Trainer

WAYS = ("plain", "fused", "auto")
SIZE = "cpu"
# Not more than 2 % slower than the best loop that is written by hand, in a run of 200 steps.
BAR = 0.98


def by_hand(case: Case, steps: int, *, fused: bool | None) -> float:
    """Train in a loop as people write it; return the last loss."""
    model, batch, loss_of = case.make("plain", SIZE, "cpu"), case.batch(SIZE, "cpu"), case.loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
    return loss.item()


def by_trainer(case: Case, steps: int) -> float:
    """Train a flow graph with the trainer of flodl; return the mean loss."""
    state = (
        Trainer.builder(
            lambda: case.make("flow", SIZE, "cpu"),
            lambda params: torch.optim.Adam(params, lr=1e-3),
            case.loss(),
        )
        .dataset([case.batch(SIZE, "cpu")] * steps)
        .num_epochs(1)
        .step("auto")
        .progress(False)
        .run()
        .join()
    )
    for line in state.notices:
        print(line, file=sys.stderr)
    return state.history[-1].avg_loss


def child(name: str, way: str, steps: int) -> None:
    """Run one training and print what it took."""
    case = next(each for each in CASES if each.name == name)
    started, before = time.perf_counter(), _processor_s()
    if way == "auto":
        by_trainer(case, steps)
    else:
        by_hand(case, steps, fused=way == "fused" or None)
    print(json.dumps({"wall": time.perf_counter() - started, "cpu": _processor_s() - before}))


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def once(name: str, way: str, steps: int) -> dict[str, float]:
    """Return the seconds of one training in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, __file__, "--child", name, way, "--steps", str(steps)],
            env={**os.environ, "FLODL_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Print a row for each model; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", action="append", choices=[each.name for each in CASES])
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.steps)
        return 0
    print(
        f"{options.steps} steps, median of {options.rounds}; above 1: auto is faster than the fused loop"
    )
    print(f"{'model':<18}{'plain s':>9}{'fused s':>9}{'auto s':>9}{'wall':>7}{'cpu':>7}")
    missed = 0
    for name in options.model or [each.name for each in CASES]:
        rounds: list[dict[str, Any]] = [
            {way: once(name, way, options.steps) for way in WAYS} for _ in range(options.rounds)
        ]
        walls = [statistics.median(each[way]["wall"] for each in rounds) for way in WAYS]
        ratios = [
            statistics.median(each["fused"][what] / each["auto"][what] for each in rounds)
            for what in ("wall", "cpu")
        ]
        worst = min(ratios)
        missed += worst < BAR
        print(f"{name:<18}" + "".join(f"{each:>9.2f}" for each in walls), end="")
        print("".join(f"{each:>7.2f}" for each in ratios) + ("" if worst >= BAR else "  missed"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
