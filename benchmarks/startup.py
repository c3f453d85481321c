"""Measure what starting `fdl` costs, in CPU time, against `python -c pass` of the same Python.

Runs are paired: every round runs each command once, so that a busy machine slows all of them.
Usage: `python benchmarks/startup.py [ROUNDS]`; the exit code is 1 if a bar is missed.
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

ROOT = Path(__file__).parent.parent


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command line and the most it may cost, as a multiple of an empty Python."""

    name: str
    arguments: tuple[str, ...]
    bar: float
    in_project: bool = False
    fresh: bool = False  # in a folder of its own in every round
    bootstrap: bool = False  # through the script of a clone, which first checks its environment


CASES = (
    Case(name="fdl", arguments=(), bar=4.0),
    Case(name="fdl, in a project", arguments=(), bar=4.0, in_project=True),
    Case(name="fdl --help", arguments=("--help",), bar=4.0),
    Case(name="fdl --version", arguments=("--version",), bar=4.0),
    Case(name="fdl port --help", arguments=("port", "--help"), bar=5.0),
    Case(name="fdl help exit-codes", arguments=("help", "exit-codes"), bar=9.0),
    Case(name="fdl nonsense", arguments=("nonsense",), bar=7.0),
    Case(name="fdl __complete zsh", arguments=("__complete", "zsh", ""), bar=4.5, in_project=True),
    Case(name="fdl diagnose --json", arguments=("diagnose", "--json"), bar=15.0),
    Case(name="fdl init p", arguments=("init", "p", "--vcs", "none", "-q"), bar=17.0, fresh=True),
    Case(name="./fdl --version", arguments=("--version",), bar=4.0, bootstrap=True),
)


def cpu_ms(command: list[str], folder: Path) -> float:
    """Return user and system time of one run of a command, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        cwd=folder,
        # Without this, a machine that forbids bytecode would measure the compiler.
        env={name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds * 1000


def main() -> int:
    """Print the table; return 1 if a bar is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    script = Path(sys.executable).parent / "fdl"
    empty = [sys.executable, "-c", "pass"]
    nowhere = Path(tempfile.gettempdir())
    commands = {
        case: [str(ROOT / "fdl" if case.bootstrap else script), *case.arguments] for case in CASES
    }

    def cost_of(case: Case) -> float:
        if not case.fresh:
            return cpu_ms(commands[case], ROOT if case.in_project else nowhere)
        with tempfile.TemporaryDirectory() as folder:
            return cpu_ms(commands[case], Path(folder))

    for case in CASES:
        cost_of(case)  # warms the file cache and writes the bytecode
    base: list[float] = []
    ratios: dict[Case, list[float]] = {case: [] for case in CASES}
    costs: dict[Case, list[float]] = {case: [] for case in CASES}
    for _ in range(rounds):
        base.append(cpu_ms(empty, nowhere))
        for case in CASES:
            cost = cost_of(case)
            costs[case].append(cost)
            ratios[case].append(cost / base[-1])
    print(f"python -c pass: {statistics.median(base):.1f} ms CPU (median of {rounds})")
    print(f"{'command':<22}{'CPU ms':>8}{'ratio':>8}{'bar':>7}")
    missed = 0
    for case in CASES:
        ratio = statistics.median(ratios[case])
        verdict = "" if ratio <= case.bar else "  missed"
        missed += ratio > case.bar
        cost = statistics.median(costs[case])
        print(f"{case.name:<22}{cost:>8.1f}{ratio:>8.2f}{case.bar:>7.1f}{verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
