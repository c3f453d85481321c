"""Run the protocol of jansel/pytorch-jit-paritybench over a checkout: our port, beside torch's own captures.

Usage: `python benchmarks/paritybench.py CHECKOUT [--part P] [--sample N] [--files NAME...] [--verify]`

CHECKOUT is a work tree, a git directory, or a folder with files of that format; nothing of it is
kept in this repository. Results are kept per file in the --work folder, so a run goes on where it
was stopped (--again starts anew). The default part is the fifth that may be looked at; the rest
measures us. docs/explanation/porter.md says what the columns mean.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.parity import corpus, table, worker


def arguments(words: list[str]) -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--part", choices=corpus.PARTS, default="development")
    parser.add_argument("--sample", type=int, help="a random sample of this many files")
    parser.add_argument("--cases", type=int, help="at most this many cases of each file")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--files", nargs="+", default=[], help="only these files")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "fdl-paritybench"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--verify", action="store_true", help="port as users do, with verification"
    )
    parser.add_argument("--no-baselines", action="store_true", help="without torch.fx and export")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    parser.add_argument("--details", action="store_true", help="list every kept class and failure")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    return parser.parse_args(words)


def chosen(options: Namespace) -> Any:
    """Return the names of the files to run."""
    names = corpus.listing(options.checkout)
    if options.files:
        wanted = {Path(file).stem for file in options.files}
        return [name for name in names if Path(name).stem in wanted]
    if options.part != "all":
        names = [name for name in names if corpus.part_of(name) == options.part]
    if options.sample is not None and options.sample < len(names):
        names = sorted(random.Random(options.seed).sample(names, options.sample))
    return names


def result_file(options: Namespace, name: str) -> Any:
    """Return where the results of a file are kept."""
    return options.work / "results" / f"{Path(name).stem}.json"


def prepare(*, baselines: bool) -> Any:
    """Load what every process needs, once: the forks share it."""
    import torch

    import fdl_cli.porter.port_file
    import flodl

    torch.set_num_threads(1)
    if baselines:
        import torch.export
        import torch.fx

        class Tiny(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return x + 1

        torch.export.export(Tiny(), (torch.ones(2),), strict=False)
    return fdl_cli, flodl


def start(options: Namespace, name: str) -> Any:
    """Fork the work on one file."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        found = worker.run_file(
            options.work,
            name,
            verified=options.verify,
            baselines=not options.no_baselines,
            most=options.cases,
        )
        target = result_file(options, name)
        beside = target.with_suffix(".tmp")
        beside.write_text(json.dumps(found), encoding="utf-8")
        beside.replace(target)
        code = 0
    except BaseException as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def run(options: Namespace, names: list[str]) -> None:
    """Run all files that have no result yet, some at a time."""
    pending = [name for name in names if not result_file(options, name).is_file()]
    running, done, started = {}, 0, time.monotonic()
    try:
        while pending or running:
            while pending and len(running) < options.jobs:
                name = pending.pop(0)
                running[start(options, name)] = name
            child, _ = os.wait()
            name = running.pop(child)
            done += 1
            print(f"[{time.monotonic() - started:6.0f} s] {done} done: {name}", file=sys.stderr)
    finally:
        for child in running:
            os.kill(child, signal.SIGTERM)


def main(words: list[str]) -> Any:
    """Run what is missing and print the table."""
    options = arguments(words)
    names = chosen(options)
    corpus.materialise(options.checkout, names, options.work)
    (options.work / "results").mkdir(parents=True, exist_ok=True)
    if options.again:
        for name in names:
            result_file(options, name).unlink(missing_ok=True)
    prepare(baselines=not options.no_baselines)
    run(options, names)
    files = [result_file(options, name) for name in names]
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
    data = table.summary(results)
    if options.json:
        print(json.dumps(data, indent=1))
    else:
        print(table.text(data, details=options.details))
    return 0 if not (data["wrong_but_verified"] or data["crashed"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
