"""Conditions of a measurement: commit, date, machine, load and versions, as result files state them."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IDLE = 1.75
"""The highest load that counts as idle: a benchmark of one thread and its short helpers, nothing else."""


def measured(*packages: str, **more: Any) -> dict[str, Any]:
    """Return the conditions of a measurement that begins now.

    Args:
        packages: installed distributions whose versions matter.
        more: what else the file states, such as `clock`.

    Returns:
        `commit`, `date`, `machine`, `load` (one number, the average of the last minute), `python`,
        `versions`, and `more`.
    """
    git = ["git", "-C", os.fspath(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(git, capture_output=True, check=False, text=True)
    return {
        "commit": done.stdout.strip(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": [load()],
        "python": platform.python_version(),
        "versions": {each: version(each) for each in packages},
        **more,
    }


def load() -> float:
    """Return the load of the machine: the average number of running processes in the last minute."""
    return round(os.getloadavg()[0], 2)


def ended(before: dict[str, Any]) -> dict[str, Any]:
    """Return the conditions of a measurement that ends now: the load at its end is added."""
    return {**before, "load": [*before["load"], load()]}


def is_idle(found: Mapping[str, Any]) -> bool:
    """Return True if nothing says that other programs ran: the load at the start and at the end is low."""
    return max(found.get("load", ()), default=0.0) <= IDLE


def told(found: Mapping[str, Any], *, is_timed: bool = True) -> str:
    """Return the conditions as one sentence, which names what the file does not have.

    Example:
        >>> told({"date": "2026-11-27", "python": "3.11.7", "versions": {"torch": "2.13.0"}})
        'Measured on 2026-11-27, Python 3.11.7, torch 2.13.0; machine not noted; load not noted.'

    Args:
        found: the conditions.
        is_timed: False for counts, which are the same on any machine.
    """
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    commit = f", commit {found['commit'][:10]}" if "commit" in found else ""
    loads = " to ".join(map(str, _limits(found.get("load", ())))) or "not noted"
    where = f"{found.get('machine', 'machine not noted')}; load {loads}"
    return (
        f"Measured on {found['date']}{commit}, Python {found['python']}, {versions}; "
        f"{where if is_timed else 'counts, without times'}."
    )


def together(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the conditions of measurements that share a table: equal machine and versions, all loads.

    Raises:
        ValueError: two were measured on other machines or with other versions.
    """
    first = found[0]
    for name in ("machine", "python", "versions"):
        if any(each.get(name) != first.get(name) for each in found):
            raise ValueError(f"the measurements differ in {name}: each needs a table apart")
    dates = sorted({each["date"] for each in found})
    whole = {**first, "date": " to ".join({dates[0]: 0, dates[-1]: 0})}
    whole["load"] = _limits([number for each in found for number in each.get("load", ())])
    if len({each.get("commit") for each in found}) > 1:
        whole.pop("commit", None)
    return whole


def machine() -> str:
    """Return the number and the kind of the processors, such as `2 x AMD EPYC`."""
    return f"{os.cpu_count()} x {_processor()}"


def _limits(numbers: Sequence[float]) -> list[float]:
    return sorted({min(numbers), max(numbers)}) if numbers else []


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
