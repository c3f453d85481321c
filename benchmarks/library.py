"""Run a library's own tests on the library and on its port, and compare both runs test by test.

Usage: `python benchmarks/library.py LIBRARY [--tests PATH...] [-k EXPR] [--source FOLDER] [--json FILE]`
       `python benchmarks/library.py timm --like benchmarks/results/library/timm.json`

LIBRARY is timm, torchvision or transformers, or a folder NAME with a package NAME and tests. It is copied
twice to the --work folder, and the model code of one copy is ported in place. The tests are those of the
source distribution or, where it has none, of a checkout (--source). Each test runs once on both, from
the same seeds. What its calls of modules return, its gradients and its random state must have the same
bits:

    tests: 212, compared 201
    same: 200  newly failing: 1  both skip: 11
    classes: 748 graphs of 754
    processor time of the tests that are the same: 41.0 s, ported 43.1 s, ratio 1.051

Rows are kept per test, so a run continues where it was stopped (`--again` begins again). Nothing of a library
is kept in this repository but the names of its tests.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.library_suite import comparison, sources  # noqa: E402
from benchmarks.shared import conditions  # noqa: E402

SETTINGS = "FDL_LIBRARY_SUITE"
QUIET = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "PYTHONHASHSEED": "0",
}
# A process that dies in a test is started again for those after it, at most so often.
STARTS = 20


def arguments(words: list[str]) -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", help=f"{', '.join(sources.LIBRARIES)}, or a folder")
    parser.add_argument(
        "--tests", nargs="+", default=[], help="paths or ids, as pytest takes them"
    )
    parser.add_argument("--like", type=Path, metavar="FILE", help="the tests of an earlier result")
    parser.add_argument("-k", dest="expression", default="", help="as pytest takes it")
    parser.add_argument("--source", type=Path, help="a checkout of the library, for its tests")
    parser.add_argument("--code", nargs="+", default=[], help="what to port, below the package")
    parser.add_argument("--verify", action="store_true", help="port with verification")
    parser.add_argument("--limit-s", type=float, default=120, help="for one test")
    parser.add_argument("--budget-s", type=float, default=1200, help="for the tests of one side")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "fdl-library")
    parser.add_argument("--again", action="store_true", help="forget the port and the rows")
    parser.add_argument("--report", action="store_true", help="run nothing; show what is known")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    return parser.parse_args(words)


def run(side: Path, rows: Path, options: Any, chosen: list[str], only: list[str]) -> None:
    """Run the chosen tests on one side; those that have a row are left out."""
    end = time.monotonic() + options.budget_s
    for _ in range(STARTS):
        done = sorted(comparison.read(rows))
        settings = {
            "file": str(rows), "limit_s": options.limit_s, "budget_s": end - time.monotonic(),
            "done": done, "only": only,
        }  # fmt: skip
        file = rows.with_suffix(".settings")
        file.write_text(json.dumps(settings), encoding="utf-8")
        argv = [
            sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.library_suite.recorder",
            "-p", "no:cacheprovider", "-p", "no:timeout", "-p", "no:randomly", "--tb=short",
            "--continue-on-collection-errors", f"--rootdir={side}", *chosen,
        ]  # fmt: skip
        if options.expression:
            argv += ["-k", options.expression]
        path = os.pathsep.join([str(side), str(ROOT), *sys.path[1:2]])
        with rows.with_suffix(".log").open("ab") as log:
            ended = subprocess.run(
                argv,
                cwd=side,
                env={**os.environ, **QUIET, "PYTHONPATH": path, SETTINGS: str(file)},
                stdout=log,
                stderr=log,
                check=False,
            )
        crashed = len(comparison.read(rows)) > len(done) and ended.returncode < 0
        if not crashed or time.monotonic() > end:
            return


def measure(
    library: sources.Library, folder: Path | None, options: Any, work: Path
) -> dict[str, Any]:
    """Port the library, run what has no row yet, and return the result."""
    name = library.name
    package = sources.package(name, work / "site") if folder is None else folder / name
    tests = sources.tests(library, options.source or folder, work)
    for side in ("original", "ported"):
        sources.prepare(package, tests, work / side)
    code = tuple(options.code) or library.code
    port = sources.port(work / "ported", name, code, work / "port.json", verified=options.verify)
    chosen = _chosen(options, work) or list(library.chosen)
    rows = {name: work / f"{name}.jsonl" for name in ("original", "ported", "repeated")}
    if not options.report:
        run(work / "original", rows["original"], options, chosen, [])
        known = sorted(comparison.read(rows["original"]))
        if known:
            run(work / "ported", rows["ported"], options, chosen, known)

    def compared() -> dict[str, dict[str, Any]]:
        return comparison.compare(*(comparison.read(file) for file in rows.values()))

    found = compared()
    doubtful = comparison.differing(found)
    if doubtful and not options.report:
        run(work / "original", rows["repeated"], options, chosen, doubtful)
        found = compared()
    return {
        "measured": {
            **_circumstances(name, options, chosen),
            "tests_of": tests.parent.name,
            "code": port["code"],
        },
        **comparison.summary(found, port["classes"]),
        "port_seconds": port["seconds"],
        "not graphs": [each for each in port["classes"] if each["status"] != "graph"],
        "by_test": found,
    }


def _chosen(options: Any, work: Path) -> list[str]:
    if options.like is None:
        return list(options.tests)
    names = json.loads(options.like.read_text(encoding="utf-8"))["by_test"]
    file = work / f"{options.like.stem}.ids"  # more than a command line takes
    file.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return [f"@{file}"]


def _circumstances(name: str, options: Any, chosen: list[str]) -> dict[str, Any]:
    return {
        **conditions.measured(),
        "versions": {each: _version(each) for each in ("torch", name)},
        # A list of ids is that of the tests below.
        "tests": [each for each in chosen if not each.startswith("@")],
        "expression": options.expression,
        "limit_s": options.limit_s,
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # made by hand, as in a test of this program
        return "unknown"


def _document(found: dict[str, Any]) -> str:
    """Return the result as JSON, with one line for each test."""
    rest = {key: value for key, value in found.items() if key != "by_test"}
    tests = [
        f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in found["by_test"].items()
    ]
    head = json.dumps(rest, indent=1).removesuffix("\n}")
    return head + ',\n "by_test": {\n' + ",\n".join(tests) + "\n }\n}\n"


def main(words: list[str]) -> int:
    """Measure one library, print the table and write the result."""
    options = arguments(words)
    library, folder = sources.library(options.library)
    work = options.work.resolve() / library.name
    if options.again:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    found = measure(library, folder, options, work)
    print("\n".join(comparison.text(found, found["by_test"])))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(_document(found), encoding="utf-8")
    return 0 if comparison.is_good(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
