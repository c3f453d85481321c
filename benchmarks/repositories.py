"""Port whole repositories as a user would, and sum the reports up.

Usage: `python benchmarks/repositories.py FOLDER... [--site FOLDER] [--timeout S] [--details]`

Every FOLDER is a repository. It is copied to the --work folder and ported there by `fdl port`. A
collection, whose Python files stand in subfolders only and which is no package, is ported subfolder by
subfolder: each is a project of its own. Reports are kept, so a run goes on where it was stopped
(--again starts anew, --report shows what is known). Nothing of a repository is kept in this one.

The columns: classes with a forward of their own; those ported; of these the share for which the
verification found constructor arguments and inputs by itself; those proved equal; kept classes; classes
that need what stops the import of their file; scripts that train here unported, and those that train equally.
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
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IGNORED = shutil.ignore_patterns(".git", "__pycache__", "*.pth", "*.pt", "*.zip")
NO_FORWARD = "FDL201"
COLUMNS = (
    *("repository", "classes", "ported", "inputs", "share", "equal", "differ", "kept"),
    *("no import", "trains", "same", "failed", "seconds"),
)


def arguments(words: list[str]) -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--site", type=Path, help="a folder of packages that a user would have")
    parser.add_argument("--timeout", type=float, default=60, help="of the verification of a file")
    parser.add_argument("--unit-timeout", type=float, default=3600, help="of one project")
    parser.add_argument("--training", choices=("keep", "setup", "builder"), default="keep")
    parser.add_argument("--only", nargs="+", default=[], help="only these subfolders")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "fdl-repos")
    parser.add_argument("--again", action="store_true", help="forget earlier reports")
    parser.add_argument("--report", action="store_true", help="run nothing; show what is known")
    parser.add_argument("--details", action="store_true", help="list what is not as it should be")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    return parser.parse_args(words)


def projects(folder: Path) -> Iterator[Path]:
    """Yield what is ported as one project: the folder, or those of its subfolders with code."""
    children = sorted(
        item for item in folder.iterdir() if item.is_dir() and not item.name.startswith(".")
    )
    here = any(folder.glob("*.py")) or any(folder.glob("*.ipynb"))
    if here or any((child / "__init__.py").is_file() for child in children):
        yield folder
        return
    for child in children:
        yield from projects(child)


def report_file(options: Namespace, folder: Path, project: Path) -> Path:
    """Return where the report of a project is kept."""
    name = "-".join(project.relative_to(folder.parent).parts)
    return Path(options.work) / "reports" / f"{name}.{options.training}.json"


def copied(options: Namespace, folder: Path) -> Path:
    """Return a copy of the repository, which user code may change."""
    copy = Path(options.work) / "sources" / folder.name
    if not copy.is_dir():
        shutil.copytree(folder, copy, ignore=IGNORED)
    return copy


def port(options: Namespace, source: Path, target: Path) -> None:
    """Port a project and keep the report, or why there is none."""
    ported = Path(options.work) / "ported" / target.stem
    shutil.rmtree(ported, ignore_errors=True)
    words = ["port", ".", "-o", str(ported.resolve()), "--json"]
    words += ["--timeout", str(options.timeout), "--training", options.training]
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    site = [] if options.site is None else [str(options.site.absolute())]
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *site])
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fdl_cli", *words],
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            timeout=options.unit_timeout,
            check=False,
        )
        report = _read_report(done)
    except subprocess.TimeoutExpired:
        report = {"crash": f"not finished within {options.unit_timeout:.0f} s"}
    report["seconds"] = time.monotonic() - started
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report), encoding="utf-8")


def _read_report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    try:
        document = json.loads(done.stdout)
        return {"files": document["data"]["files"], "exit code": done.returncode}
    except (ValueError, KeyError, TypeError):
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        return {"crash": f"exit code {done.returncode}: {''.join(last)}"}


def count(report: dict[str, Any]) -> Counter[str]:
    """Count the classes and scripts of a report, by column."""
    numbers: Counter[str] = Counter(seconds=round(report["seconds"]))
    numbers["failed"] += "crash" in report
    for file in report.get("files", ()):
        numbers["failed"] += file["status"] == "failed"
        for item in own_forwards(file):
            numbers["classes"] += 1
            numbers[_outcome(item)] += 1
        script = file["script"]
        if script is not None and script["status"] != "not-run":
            numbers["trains"] += 1
            numbers["same"] += script["status"] == "equal"
    numbers["ported"] = numbers["classes"] - numbers["kept"]
    numbers["inputs"] = numbers["equal"] + numbers["differ"]
    return numbers


def own_forwards(file: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the classes of a file that have a forward of their own; some bases have none."""
    return [
        item
        for item in file["classes"]
        if all(reason["code"] != NO_FORWARD for reason in item["reasons"]) and not _is_base(item)
    ]


def _is_base(item: dict[str, Any]) -> bool:
    """Return True for a graph that is proved with the classes that extend it only."""
    verify = item["verify"]
    unproved = verify["status"] == "not-run" and verify["reason"] is None
    return unproved and item["status"] != "kept"


def _outcome(item: dict[str, Any]) -> str:
    if item["status"] == "kept":
        return "kept"
    if item["verify"]["status"] == "not-run":
        return "no import" if item["verify"]["reason"] == "does-not-run" else "no inputs"
    return "equal" if item["verify"]["status"] == "equal" else "differ"


def details(name: str, report: dict[str, Any]) -> Iterator[str]:
    """Yield a line for everything that is not ported and proved."""
    if "crash" in report:
        yield f"{name}: {report['crash']}"
    for file in report.get("files", ()):
        place = f"{name}/{Path(file['file']).name}"
        if file["error"] is not None:
            yield f"{place}: failed: {file['error']['message']}"
        for item in own_forwards(file):
            outcome = _outcome(item)
            for reason in item["reasons"] if outcome == "kept" else ():
                line = f"{place}:{reason['line']} {item['name']}"
                yield f"{line}: {reason['code']} {reason['message']}"
            if outcome not in {"kept", "equal"}:
                yield f"{place}:{item['line']} {item['name']}: {outcome}: {item['verify']['detail']}"
        script = file["script"]
        if script is not None and script["status"] != "equal":
            yield f"{place}: script {script['status']}: {script['detail']}"
        if file["seconds"] > 120:
            yield f"{place}: took {file['seconds']:.0f} s"


def table(rows: list[tuple[str, Counter[str]]]) -> Iterator[str]:
    """Yield the numbers as lines of a table."""
    width = max(len(name) for name, _ in rows)
    yield "  ".join([f"{COLUMNS[0]:{width}}", *(f"{word:>7}" for word in COLUMNS[1:])])
    for name, numbers in rows:
        share = 100 * numbers["inputs"] / max(numbers["ported"], 1)
        cells = [
            f"{share:.1f} %" if word == "share" else str(numbers[word]) for word in COLUMNS[1:]
        ]
        lengths = [max(len(word), 7) for word in COLUMNS[1:]]
        yield "  ".join(
            [f"{name:{width}}", *(f"{cell:>{n}}" for cell, n in zip(cells, lengths, strict=True))]
        )


def main(words: list[str]) -> int:
    """Port what has no report yet and print the table."""
    options = arguments(words)
    rows: list[tuple[str, Counter[str]]] = []
    remarks: list[str] = []
    for folder in (item.resolve() for item in options.folders):
        total: Counter[str] = Counter()
        for project in projects(folder):
            if options.only and project.name not in options.only:
                continue
            target = report_file(options, folder, project)
            if options.again and not options.report:
                target.unlink(missing_ok=True)
            if not target.is_file() and not options.report:
                print(f"port {project.relative_to(folder.parent)}", file=sys.stderr, flush=True)
                port(options, copied(options, folder) / project.relative_to(folder), target)
            if target.is_file():
                report = json.loads(target.read_text(encoding="utf-8"))
                total += count(report)
                remarks += details(str(project.relative_to(folder.parent)), report)
        rows.append((folder.name, total))
    rows.append(("all", sum((numbers for _, numbers in rows), Counter())))
    lines = [json.dumps({name: dict(numbers) for name, numbers in rows})]
    print("\n".join(lines if options.json else table(rows)))
    if options.details:
        print("\n".join(remarks))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
