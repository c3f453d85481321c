"""Measure what `fdl TASK` costs before the task begins, in CPU time, against `python -c pass`.

The project is made in a temporary folder, with 21 tasks; every task ends at once.
Usage: `python benchmarks/tasks.py [ROUNDS]`; the exit code is 1 if a bar is missed.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command line and the most it may cost, as a multiple of an empty Python."""

    name: str
    arguments: tuple[str, ...]
    bar: float


CASES = (
    Case(name="fdl TASK", arguments=("quick",), bar=3.5),
    Case(name="fdl TASK -- ARGUMENTS", arguments=("quick", "--", "-k", "a b"), bar=3.5),
    Case(name="fdl ENTRY --lr 0.1", arguments=("train", "--lr", "0.1"), bar=3.5),
    Case(name="fdl (lists the tasks)", arguments=(), bar=4.0),
    Case(name="fdl -n TASK", arguments=("-n", "quick"), bar=11.0),
    Case(name="fdl tasks", arguments=("tasks",), bar=11.0),
)
SCHEMA = '{"options": {"lr": {"type": "number"}}, "args": [], "strict": true}'


def make_project(folder: Path) -> None:
    """Write a manifest of ordinary size, and an entry with options."""
    lines = ["description: a project", "commands:"]
    lines += [f"  task-{n}: {{description: task number {n}, run: echo {n}}}" for n in range(19)]
    lines += ["  quick: {run: ['true']}"]
    lines += ["  train: {entry: [./train.sh]}"]
    (folder / "fdl.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    script = f'#!/bin/sh\n# answers --fdl-schema\n[ "$1" != --fdl-schema ] || echo {SCHEMA!r}\n'
    (folder / "train.sh").write_text(script, encoding="utf-8")
    (folder / "train.sh").chmod(0o755)


def cpu_ms(command: list[str], folder: Path) -> float:
    """Return user and system time of one run of a command, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {**os.environ, "HOME": str(folder), "FDL_ENV": ""}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds * 1000


def main() -> int:
    """Print the table; return 1 if a bar is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    script = Path(sys.executable).parent / "fdl"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_project(folder)
        return measure(rounds, script, folder)


def measure(rounds: int, script: Path, folder: Path) -> int:
    """Run everything in turns, so that a busy machine slows all of them."""
    empty = [sys.executable, "-c", "pass"]
    commands = {case: [str(script), *case.arguments] for case in CASES}
    for command in (empty, *commands.values(), *commands.values()):
        cpu_ms(command, folder)
    base: list[float] = []
    ratios: dict[Case, list[float]] = {case: [] for case in CASES}
    costs: dict[Case, list[float]] = {case: [] for case in CASES}
    for _ in range(rounds):
        base.append(cpu_ms(empty, folder))
        for case, command in commands.items():
            cost = cpu_ms(command, folder)
            costs[case].append(cost)
            ratios[case].append(cost / base[-1])
    print(f"python -c pass: {statistics.median(base):.1f} ms CPU (median of {rounds})")
    print(f"{'command':<24}{'CPU ms':>8}{'ratio':>8}{'bar':>7}")
    missed = 0
    for case in CASES:
        ratio = statistics.median(ratios[case])
        verdict = "" if ratio <= case.bar else "  missed"
        missed += ratio > case.bar
        cost = statistics.median(costs[case])
        print(f"{case.name:<24}{cost:>8.1f}{ratio:>8.2f}{case.bar:>7.1f}{verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
