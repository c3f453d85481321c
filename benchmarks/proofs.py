"""Measure how many classes of models of transformers one run of `fdl port` proves, and in what time.

Usage: `python benchmarks/proofs.py [FAMILY...] [--timeout SECONDS]` (default: bert, t5, llama and detr). The
modeling file of each family is ported as it is installed, to a temporary folder. Counted are the classes
that have a forward of their own. The exit code is 1 if the bar is missed.
"""

import argparse
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

FAMILIES = ("bert", "t5", "llama", "detr")
SHARE = 0.9
SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One family: its classes with a forward, those that are proved, and what the run took."""

    family: str
    classes: int
    proved: int
    wall_s: float
    cpu_s: float
    rest: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the bar is met."""
        return self.proved >= SHARE * self.classes and self.wall_s <= SECONDS


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


def measure(family: str, timeout_s: float) -> Measured:
    """Port the file of one family once, with the proof."""
    file = modeling_file(family)
    wanted = with_forward(file)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "fdl_cli", "port", str(file), "-o", str(Path(folder) / "port.py"),
            "--timeout", str(timeout_s), "--json",
        ]  # fmt: skip
        before, started = os.times(), time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall_s, after = time.monotonic() - started, os.times()
    report = json.loads(done.stdout)
    if report["data"] is None:
        sys.exit(f"{family}: {report['error']['message']}")
    (found,) = report["data"]["files"]
    classes = [item for item in found["classes"] if item["name"] in wanted]
    proved = [item for item in classes if item["verify"]["status"] == "equal"]
    return Measured(
        family=family,
        classes=len(wanted),
        proved=len(proved),
        wall_s=wall_s,
        cpu_s=after.children_user - before.children_user,
        rest=tuple(_rest(item) for item in classes if item not in proved),
    )


def _rest(item: dict[str, object]) -> str:
    verify = item["verify"]
    assert isinstance(verify, dict)
    return f"{item['name']}: {item['status']}, {verify['reason'] or verify['status']}"


def main() -> int:
    """Measure the families one after the other and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--timeout", type=float, default=SECONDS)
    options = parser.parse_args()
    print("| family | classes with a forward | proved | seconds | of the processor |")
    print("|---|---|---|---|---|")
    missed = False
    for family in options.families:
        found = measure(family, options.timeout)
        print(
            f"| {family} | {found.classes} | {found.proved} | {found.wall_s:.0f} | {found.cpu_s:.0f} |",
            flush=True,
        )
        for text in found.rest:
            print(f"  {text}", file=sys.stderr)
        missed |= not found.holds
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
