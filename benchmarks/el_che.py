"""Measure the decision at the end of a window, and the division of units; exit code 1 if a bar is missed.

Usage: `python benchmarks/el_che.py`. A decision reads the rows of all ranks, and gives the next plan; its
inputs vary by 5 % from window to window. The time is the median of 30 windows.
"""

import random
import statistics
import sys
import time

from flodl.distributed import ControlRow, ConvergenceGuard, WindowPlanner, divide

DECISION_MS = {2: 0.5, 1024: 5.0, 4096: 25.0}
DIVISION_S = 0.5
WINDOWS = 30


def decision_ms(ranks: int) -> float:
    """Return the median milliseconds of a decision."""
    draw = random.Random(0)
    paces = [draw.uniform(0.1, 0.5) for _ in range(ranks)]
    planner = WindowPlanner(ranks * 2000, range(ranks), guard=ConvergenceGuard())
    times = []
    for _ in range(WINDOWS):
        plan = planner.plan
        assert plan is not None
        rows = [
            ControlRow(
                rank=rank,
                window=plan.window,
                done=count,
                busy=count * paces[rank] * draw.gauss(1.0, 0.05),
                sync=0.05,
                drift=0.01,
                loss=1.0,
            )
            for rank, count in zip(plan.members, plan.counts, strict=True)
        ]
        begin = time.perf_counter()
        planner.decide(rows)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def division_s(units: int, ranks: int) -> float:
    """Return the median seconds of a division."""
    draw = random.Random(0)
    seconds = [draw.uniform(0.1, 1.0) for _ in range(ranks)]
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        divide(units, seconds)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> int:
    """Measure and print; return 1 if a bar is missed."""
    missed = 0
    for ranks, bar in DECISION_MS.items():
        found = decision_ms(ranks)
        missed += found > bar
        print(f"decision for {ranks:,} ranks: {found:.2f} ms (bar {bar} ms)")
    found = division_s(100_000, 10_000)
    missed += found > DIVISION_S
    print(f"100,000 units among 10,000 ranks: {found:.3f} s (bar {DIVISION_S} s)")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
