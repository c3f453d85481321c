"""Measure whole trainings: loops by hand, one with `torch.compile`, and a `Trainer` with `.step("auto")`.

Run: `python benchmarks/gain.py [--steps 200] [--rounds 5] [--model NAME]... [--to 20000] [--json FILE]`.
Each training runs in a new process and is measured from its first line after the imports to its end: by
the clock, and by the processor time of it and its children. `auto` begins with an empty folder of compiled
steps, `again` is the second run of the same script, which finds what the first has left. torch.compile has
an empty cache of its own. All ways run in turn within each round; a figure is the median over the rounds.
`--to N` computes N steps from the time of a step in the last three quarters. Use an otherwise idle machine;
the exit code is 1 if a bar is missed.
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

WAYS = ("plain", "fused", "compile", "auto", "again")
SIZE = "cpu"
# Not more than 2 % slower than the best loop that is written by hand, nor than torch.compile.
BAR = 0.98
# From so many steps on, second runs are this much faster than the best loop: the geometric mean of models.
LONG, GAIN = 2_000, 1.15


def by_hand(case: Case, steps: int, *, fused: bool | None, compiled: bool) -> float:
    """Train in a loop as people write it; return the last loss."""
    model, batch, loss_of = case.make("plain", SIZE, "cpu"), case.batch(SIZE, "cpu"), case.loss()
    if compiled:
        model.compile()
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
    if way in ("auto", "again"):
        by_trainer(case, steps)
    else:
        by_hand(case, steps, fused=way != "plain" or None, compiled=way == "compile")
    print(json.dumps({"wall": time.perf_counter() - started, "cpu": _processor_s() - before}))


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def once(name: str, way: str, steps: int, folder: str) -> dict[str, float]:
    """Return the seconds of one training in a new process; `folder` keeps compiled steps."""
    with tempfile.TemporaryDirectory() as inductor:
        done = subprocess.run(
            [sys.executable, __file__, "--child", name, way, "--steps", str(steps)],
            env={**os.environ, "FLODL_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": inductor},
            capture_output=True,
            text=True,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def one_round(name: str, steps: int) -> dict[str, dict[str, float]]:
    """Return the seconds of each way, in turn; `again` comes after `auto` and shares its folder."""
    with tempfile.TemporaryDirectory() as folder:
        return {way: once(name, way, steps, folder) for way in WAYS}


def measured(name: str, steps: int, rounds: int, to: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of each way for `to` steps: measured for `steps`, computed beyond."""
    found = [one_round(name, steps) for _ in range(rounds)]
    seconds = _medians(found)
    if to <= steps:
        return seconds
    short = _medians([one_round(name, steps // 4) for _ in range(rounds)])
    left = (to - steps) / (steps - steps // 4)
    return {
        way: {what: each[what] + left * (each[what] - short[way][what]) for what in each}
        for way, each in seconds.items()
    }


def _medians(rounds: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        way: {
            what: statistics.median(each[way][what] for each in rounds) for what in ("wall", "cpu")
        }
        for way in WAYS
    }


def ratios(seconds: dict[str, dict[str, float]], way: str) -> dict[str, float]:
    """Return how many times as fast a way is as the best loop by hand, and as torch.compile."""
    return {
        f"{rival} {what}": min(seconds[each][what] for each in loops) / seconds[way][what]
        for rival, loops in (("loop", ("plain", "fused")), ("compile", ("compile",)))
        for what in ("wall", "cpu")
    }


def main() -> int:
    """Print a row for each model; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--to", type=int, default=0)
    parser.add_argument("--model", action="append", choices=[each.name for each in CASES])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.steps)
        return 0
    steps = max(options.steps, options.to)
    print(f"{steps} steps, median of {options.rounds}; above 1: a run of flodl is faster")
    print(f"{'model':<18}" + "".join(f"{way + ' s':>10}" for way in WAYS), end="")
    print(f"{'first/loop':>12}{'again/loop':>12}{'first/compile':>15}{'again/compile':>15}")
    rows = {
        name: row(name, measured(name, options.steps, options.rounds, options.to))
        for name in options.model or [each.name for each in CASES]
    }
    if options.json:
        document = {
            "steps": steps,
            "measured": options.steps,
            "rounds": options.rounds,
            "models": rows,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    gains = [each["again"]["loop wall"] for each in rows.values()]
    gain = statistics.geometric_mean(gains)
    print(f"second runs, geometric mean by the clock: {gain:.2f}")
    worst = min(value for each in rows.values() for value in each["auto"].values())
    return 1 if worst < BAR or (steps >= LONG and gain < GAIN) else 0


def row(name: str, seconds: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Print a row, by the clock and in brackets by processor time, and return its figures."""
    found = {way: ratios(seconds, way) for way in ("auto", "again")}
    print(f"{name:<18}" + "".join(f"{seconds[way]['wall']:>10.2f}" for way in WAYS), end="")
    for rival, width in (("loop", 12), ("compile", 15)):
        for each in found.values():
            text = f"{each[f'{rival} wall']:.2f} ({each[f'{rival} cpu']:.2f})"
            print(f"{text:>{width}}", end="")
    print("" if min(found["auto"].values()) >= BAR else "  missed", flush=True)
    return {"seconds": seconds, **found}


if __name__ == "__main__":
    sys.exit(main())
