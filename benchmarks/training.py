"""Training steps of ten models: plain PyTorch in five ways against `flodl.make_step`.

Run: `python benchmarks/training.py [--model NAME]... [--size tiny|cpu|published]... [--rounds N]`, and
`python benchmarks/training.py --report` for the tables.  Every (model, size) is measured in one process,
all variants in turn within each round; a figure is the median over the rounds of the ratio within a
round, with the median absolute deviation.  Results are kept in `--results` and not measured again
without `--again`: compiling takes minutes, most of it in `torch.compile`, on a small machine.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.models.suite import CASES, Case
from benchmarks.shared.conditions import ended, is_idle, measured, together, told
from flodl import make_step

COMPARED_STEPS = 20
BLOCK_SECONDS = 0.03
BASELINES = ("eager", "fused", "sdpa", "compile", "reduce-overhead")
OURS = ("flodl eager", "flodl captured")


def raw_step(model: Any, optimizer: Any, loss_of: Any, batch: Any) -> Callable[[], torch.Tensor]:
    """The loop as people write it."""

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def baselines(case: Case, size: str, device: str) -> dict[str, Callable[[], torch.Tensor]]:
    batch, loss_of = case.batch(size, device), case.loss()
    found: dict[str, Callable[[], torch.Tensor]] = {}
    for name in BASELINES:
        if name == "sdpa" and case.name != "transformer":
            continue
        if name == "reduce-overhead" and device == "cpu":
            continue
        model = case.make("sdpa" if name == "sdpa" else "plain", size, device)
        fused = None if name == "eager" else True
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
        if name in ("compile", "reduce-overhead"):
            mode = "reduce-overhead" if name == "reduce-overhead" else None
            model = torch.compile(model, mode=mode)
        found[name] = raw_step(model, optimizer, loss_of, batch)
    return found


def ours(case: Case, size: str, device: str, notes: dict[str, Any]) -> dict[str, Any]:
    batch, loss_of = case.batch(size, device), case.loss()
    found: dict[str, Callable[[], torch.Tensor]] = {}
    for name in OURS:
        model = case.make("flow", size, device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        mode = "eager" if name == "flodl eager" else "graph" if device == "cuda" else "compiled"
        step = make_step(model, optimizer, loss_of, mode=mode)
        found[name] = lambda step=step: step(batch)
        notes[name] = lambda step=step: step.decision
    return found


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def block(step: Callable[[], Any], repeats: int, device: str) -> float:
    synchronize(device)
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    synchronize(device)
    return (time.perf_counter() - start) / repeats


def measure(case: Case, size: str, device: str, rounds: int) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    before = measured("torch")
    steps = {**baselines(case, size, device), **ours(case, size, device, notes)}
    losses, prepared = {}, {}
    for name, step in steps.items():
        start = time.perf_counter()
        losses[name] = [float(step()) for _ in range(COMPARED_STEPS)]
        prepared[name] = time.perf_counter() - start
    repeats = {
        name: max(1, int(BLOCK_SECONDS / min(block(step, 2, device) for _ in range(3))))
        for name, step in steps.items()
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(block(step, repeats[name], device))
    expected = losses["eager"]
    return {
        "measured": ended(before),
        "times": times,
        "prepared": prepared,
        "loss": {
            name: max(abs(a - b) / abs(b) for a, b in zip(found, expected, strict=True))
            for name, found in losses.items()
        },
        "decision": notes["flodl captured"](),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
    }


# ---- reporting ----------------------------------------------------------------------------------


def ratio(times: dict[str, list[float]], slow: str, fast: str) -> tuple[float, float]:
    """Return the median of `slow / fast` within rounds, and the median absolute deviation."""
    each = [a / b for a, b in zip(times[slow], times[fast], strict=True)]
    middle = statistics.median(each)
    return middle, statistics.median(abs(value - middle) for value in each)


def auto(times: dict[str, list[float]]) -> str:
    """Return what `auto` keeps: the captured step where it is faster, else the eager one."""
    faster = ratio(times, "flodl eager", "flodl captured")[0] > 1.0 / 0.98
    return "flodl captured" if faster else "flodl eager"


def cell(times: dict[str, list[float]], slow: str, fast: str) -> str:
    if slow not in times:
        return ""
    middle, spread = ratio(times, slow, fast)
    return f"{middle:.2f} ± {spread:.2f}"


def lines(folder: Path, size: str) -> list[str]:
    """Return the tables of a size as Markdown: one of idle, and one of loaded measurements."""
    found = {
        case.name: json.loads(path.read_text())
        for case in CASES
        if (path := folder / f"{case.name}-{size}.json").exists()
    }
    parts = []
    for load, title in ((True, size), (False, f"{size}, beside other programs")):
        rows = {
            name: result for name, result in found.items() if is_idle(result["measured"]) is load
        }
        if rows:
            parts += [
                f"### {title}: how many times as fast a step is with `flodl`",
                "",
                *table(rows),
            ]
    return parts


def table(found: dict[str, Any]) -> list[str]:
    """Return the conditions, the rows and the means of results that were measured alike."""
    rivals = [
        name for name in BASELINES if any(name in result["times"] for result in found.values())
    ]
    rows = [
        *textwrap.wrap(told(together([each["measured"] for each in found.values()])), 118),
        "",
        f"| model | ours, ms | kept | {' | '.join(rivals)} | flodl eager | loss |",
        f"|---|---:|---|{'---:|' * len(rivals)}---:|---:|",
    ]
    for name, result in found.items():
        times = result["times"]
        kept = auto(times)
        cells = [cell(times, other, kept) for other in rivals]
        own = statistics.median(times[kept]) * 1e3
        rows.append(
            f"| {name} | {own:.3f} | {kept.removeprefix('flodl ')} | {' | '.join(cells)} | "
            f"{cell(times, 'flodl eager', kept)} | {result['loss'][kept]:.0e} |"
        )
    for name, (mean, least) in means(found).items():
        rows += ["", f"{name}: geometric mean {mean:.2f}, least {least:.2f}"]
    return [*rows, ""]


def means(found: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the geometric mean and the least of the ratios to each rival that all models have."""
    gains: dict[str, list[float]] = {}
    for result in found.values():
        times = result["times"]
        for name in set(BASELINES) & set(times):
            gains.setdefault(name, []).append(ratio(times, name, auto(times))[0])
    return {
        name: (math.exp(sum(map(math.log, gains[name])) / len(found)), min(gains[name]))
        for name in BASELINES
        if len(gains.get(name, ())) == len(found)
    }


# ---- running ------------------------------------------------------------------------------------


def one(name: str, size: str, options: argparse.Namespace) -> None:
    path = options.results / f"{name}-{size}.json"
    if path.exists() and not options.again:
        return
    argv = [
        sys.executable, "-W", "ignore", __file__, "--child", "--model", name, "--size", size,
        "--rounds", str(options.rounds), "--threads", str(options.threads),
        "--device", options.device,
    ]  # fmt: skip
    start = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} {size}: failed\n{done.stderr[-2000:]}", flush=True)
        return
    path.write_text(done.stdout.strip().splitlines()[-1] + "\n")
    result = json.loads(path.read_text())
    print(f"{name} {size} ({time.perf_counter() - start:.0f} s): {result['decision']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--model", action="append", choices=names)
    parser.add_argument("--size", action="append", choices=["tiny", "cpu", "published"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--again", action="store_true", help="measure what was measured before")
    parser.add_argument("--report", action="store_true", help="print the tables and end")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    folder = Path(__file__).parent.parent / "runs" / "benchmarks" / "training"
    parser.add_argument("--results", type=Path, default=folder)
    options = parser.parse_args()
    chosen = options.size or ["tiny", "cpu"]
    if options.child:
        torch.set_num_threads(options.threads)
        case = next(case for case in CASES if case.name == options.model[0])
        print(json.dumps(measure(case, chosen[0], options.device, options.rounds)))
        return
    options.results.mkdir(parents=True, exist_ok=True)
    if not options.report:
        for size in chosen:
            for name in options.model or names:
                one(name, size, options)
    for size in ("tiny", "cpu", "published"):
        if text := "\n".join(lines(options.results, size)):
            print(f"\n{text}", end="")


if __name__ == "__main__":
    main()
