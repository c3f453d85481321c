"""Change the world between two calls, and compare ports with their originals bit for bit.

Usage: `python benchmarks/world.py [FAMILY...] [--json FILE] [--details] [--resume]`

For each family a model file of transformers, timm or torchvision is ported, original and port are built
with equal weights and called.  Then, each in a forked process, one thing is changed on both: a setting, a
weight, a layer, a function, a hook, the precision, the mode, the size of the input.  Values, strides,
gradients, random state and logs of the calls that follow must be the same.

    family     changes  equal  silent  raises  both raise  not applied
    bert           212    201       0       1          10            0

Install what it needs with `pip install -r benchmarks/requirements.txt`; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.shared import conditions  # noqa: E402
from benchmarks.world_mutation import table  # noqa: E402
from benchmarks.world_mutation.families import FAMILIES  # noqa: E402

LIBRARIES = ("torch", "transformers", "timm", "torchvision")
# The last full result: the bars hold for it, and a class that is a graph there stays one.
RESULT = ROOT / "benchmarks" / "results" / "world.json"
QUIET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": str(ROOT),
    # torchvision compiles its Python stand-ins for operators of its library.
    "TORCHDYNAMO_DISABLE": "1",
}


def arguments(words: list[str]) -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("families", nargs="*", help="names, or patterns like gpt*; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument("--details", action="store_true", help="list each change that differs")
    parser.add_argument("--budget-s", type=float, default=60, help="processor time for a family")
    parser.add_argument("--changes", nargs="+", default=[], help="parts of the names of changes")
    parser.add_argument("--jobs", type=int, default=1, help="families at once")
    parser.add_argument("--resume", action="store_true", help="keep the results that --work has")
    parser.add_argument("--itself", action="store_true", help="compare originals with themselves")
    parser.add_argument("--list", action="store_true", help="print the names of the families")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "fdl-world")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """Run the families, print the table, and write the result."""
    options = arguments(words)
    names = [each.name for each in FAMILIES]
    if options.families:
        names = [n for n in names if any(fnmatchcase(n, each) for each in options.families)]
    if options.list or not names:
        print("\n".join(names) or f"no family is called {options.families}; see --list")
        return 0 if names else 2
    before = conditions.measured(*LIBRARIES, budget_s=options.budget_s)
    results = run_all(names, options)
    print(table.text(results, details=options.details))
    known = (
        json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {"families": []}
    )
    lost = table.lost_graphs(results, known["families"])
    for each in lost:
        print(f"no graph any more: {each}")
    if options.json is not None:
        found = {
            "measured": conditions.ended(before),
            **table.summary(results),
            "families": [table.compact(each) for each in results],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if table.is_good(results) and not lost else 1


def run_all(names: list[str], options: Any) -> list[dict[str, Any]]:
    """Run families, one process each, and return their results in order."""
    waiting, running = list(names), dict[str, subprocess.Popen[bytes]]()
    found: dict[str, dict[str, Any]] = {}
    if options.resume:
        found = {
            name: _read(name, options.work)
            for name in names
            if _target(options.work, name).is_file()
        }
        waiting = [name for name in names if name not in found]
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            running[name] = _started(name, options)
        time.sleep(0.2)
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                found[name] = _result(name, process, options.work)
                print(table.line(found[name]), file=sys.stderr, flush=True)
    return [found[name] for name in names]


def _place(work: Path, name: str) -> Path:
    return work.resolve() / name.replace(" ", "_")


def _target(work: Path, name: str) -> Path:
    return _place(work, name) / "result.json"


def _started(name: str, options: Any) -> subprocess.Popen[bytes]:
    folder, target = _place(options.work, name), _target(options.work, name)
    folder.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    settings = {
        "budget_s": options.budget_s, "patterns": options.changes, "itself": options.itself,
        "commit": commit(),
    }  # fmt: skip
    argv = [
        sys.executable,
        "-m",
        "benchmarks.world_mutation.trial",
        name,
        str(target),
        str(folder),
    ]
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            [*argv, json.dumps(settings)],
            cwd=ROOT,
            env={**os.environ, **QUIET},
            stdout=log,
            stderr=log,
        )


def _result(name: str, process: subprocess.Popen[bytes], work: Path) -> dict[str, Any]:
    if _target(work, name).is_file():
        return _read(name, work)
    return {"family": name, "error": f"the process ended with {process.returncode}"}


def _read(name: str, work: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_target(work, name).read_text(encoding="utf-8"))
    return found


def commit() -> str:
    """Return the commit that is checked out."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(git, capture_output=True, check=False, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
