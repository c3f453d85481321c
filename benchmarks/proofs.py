"""Measure how many classes of models of transformers one run of `fdl port` proves, and what it takes.

Usage: `python benchmarks/proofs.py [FAMILY...] [--timeout SECONDS] [--json FILE]`

The modeling file of each family (bert, t5, llama and detr) is ported as it is installed, to a temporary
folder. Counted are the classes that have a forward of their own. A proof works in several processes, of
which one computes at a time:

    | Family | Classes with a forward | Proved | Seconds | Of the processor | Peak memory |
    | bert   | 24                     | 24     | 61      | 58               | 1204 MB     |

`Seconds` is what the clock tells, `Of the processor` what all processes computed together: on a machine
that others use as well, the first is longer. `Peak memory` is the largest sum of all processes at one
time; a page that several of them share counts once. It is read as root, or of processes of one's own that
allow it. The exit code is 1 if the bar is missed: 90 % of the classes of each family, in 120 s.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.shared import conditions  # noqa: E402

FAMILIES = ("bert", "t5", "llama", "detr")
SHARE = 0.9
SECONDS = 120.0
# So often the processes are looked at; their memory less often, as that takes the kernel longer.
LOOK_S = 0.1
LOOKS_PER_MEMORY = 5
TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "| Family | Classes with a forward | Proved | Seconds | Of the processor | Peak memory |",
    "|---|---|---|---|---|---|",
)


class Processes:
    """A process and all below it: the processor time that they took, and the memory that they have."""

    def __init__(self, pid: int) -> None:
        self._root = pid
        self._ticks: dict[tuple[int, int], int] = {}
        self.peak_bytes = 0

    @property
    def seconds(self) -> float:
        """The processor time of all processes, of those that have ended as well."""
        return sum(self._ticks.values()) / TICKS

    def look(self, *, memory: bool) -> None:
        """Read what the processes took up to now."""
        rows = dict(_rows())
        # One whose parent has ended stays in the list.
        mine = {
            self._root,
            *(pid for pid, start in self._ticks if rows.get(pid, (0, 0, 0))[1] == start),
        }
        found = True
        while found:
            found = {pid for pid, row in rows.items() if row[0] in mine and pid not in mine}
            mine |= found
        for pid in mine & rows.keys():
            _, start, ticks = rows[pid]
            self._ticks[pid, start] = ticks
        if memory:
            self.peak_bytes = max(self.peak_bytes, sum(map(_proportional_bytes, mine)))


def _rows() -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Yield each process of this machine: its parent, its start and its ticks of the processor."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            text = Path(entry.path, "stat").read_text("utf-8", errors="replace")
        except OSError:
            continue  # it has just ended
        fields = text.rpartition(")")[2].split()
        yield int(entry.name), (int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12]))


def _proportional_bytes(pid: int) -> int:
    """Return the memory of a process, of which a page shared by n processes is an n-th part."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    except PermissionError:
        sys.exit("the judge of a proof hides its memory: run as root to measure it")
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))


def modeling_file(family: str) -> Path:
    """Return the installed file with the models of a family.

    Raises:
        SystemExit: transformers is not installed, or has no such family.
    """
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("transformers is not installed: pip install -r benchmarks/requirements.txt")
    folder = Path(spec.submodule_search_locations[0]) / "models" / family
    file = folder / f"modeling_{family}.py"
    if not file.is_file():
        sys.exit(f"transformers has no {file.name}")
    return file


def with_forward(file: Path) -> frozenset[str]:
    """Return the classes of a file that have a forward of their own."""
    tree = ast.parse(file.read_bytes())
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
    )


def measure(family: str, timeout_s: float) -> dict[str, Any]:
    """Port the file of one family once, with the proof."""
    file = modeling_file(family)
    wanted = with_forward(file)
    with tempfile.TemporaryDirectory() as folder:
        target, report = Path(folder) / "port.py", Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "fdl_cli", "port", str(file), "-o", str(target),
            "--timeout", str(timeout_s), "--json",
        ]  # fmt: skip
        started = time.monotonic()
        with report.open("wb") as output:
            child = subprocess.Popen(command, stdout=output, cwd=ROOT)
        processes, looks = Processes(child.pid), 0
        while child.poll() is None:
            processes.look(memory=looks % LOOKS_PER_MEMORY == 0)
            looks += 1
            time.sleep(LOOK_S)
        wall_s = time.monotonic() - started
        found = json.loads(report.read_bytes())
    if found["data"] is None:
        sys.exit(f"{family}: {found['error']['message']}")
    (outcome,) = found["data"]["files"]
    classes = [item for item in outcome["classes"] if item["name"] in wanted]
    return {
        "family": family,
        "classes": len(wanted),
        "proved": sum(item["verify"]["status"] == "equal" for item in classes),
        "graphs": sum(item["status"] == "graph" for item in classes),
        "wall_s": round(wall_s, 1),
        "processor_s": round(processes.seconds, 1),
        "peak_mb": processes.peak_bytes >> 20,
        "rest": [_rest(item) for item in classes if item["verify"]["status"] != "equal"],
    }


def _rest(item: dict[str, Any]) -> str:
    verify = item["verify"]
    state = verify.get("reason") or verify["status"]
    return f"{item['name']}: {item['status']}, {state}: {verify['detail']}"


def holds(found: dict[str, Any]) -> bool:
    """Return True if a family meets the bar, by the clock."""
    return found["proved"] >= SHARE * found["classes"] and found["wall_s"] <= SECONDS


def row(found: dict[str, Any]) -> str:
    """Return the row of one family in the table."""
    return (
        f"| {found['family']} | {found['classes']} | {found['proved']} | {found['wall_s']:.0f}"
        f" | {found['processor_s']:.0f} | {found['peak_mb']} MB |"
    )


def main(words: list[str]) -> int:
    """Measure the families one after the other, and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--timeout", type=float, default=SECONDS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    options = parser.parse_args(words)
    print(*HEAD, sep="\n", flush=True)
    results = []
    before = conditions.measured("torch", "transformers", timeout_s=options.timeout)
    for family in options.families:
        found = {"load_before": conditions.load(), **measure(family, options.timeout)}
        results.append(found)
        print(row(found), flush=True)
        for text in found["rest"]:
            print(f"  {text}", file=sys.stderr)
        if options.json is not None:
            whole = {"measured": conditions.ended(before), "families": results}
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return int(not all(map(holds, results)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
