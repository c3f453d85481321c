"""Port whole model zoos, and compare every model with its original bit by bit.

Usage: `python benchmarks/zoo.py SOURCE [--models PATTERN...] [--most N] [--verify] [--report]`

SOURCE is an installed package (`torchvision`, `pytorchcv`; --site adds a folder to look in) or a
checkout of nanoGPT or minGPT. Its sources are copied to the --work folder and ported there as one
project; nothing of them is kept in this repository. Then every model is built, called and trained
twice under one seed, from the original and from the port: state_dict, initial weights, outputs of
two batch sizes and both modes, every gradient, buffers, three losses and the weights after them.
Results are kept per model, so a run goes on where it was stopped (--again starts anew).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# torchvision compiles its Python stand-ins for operators of its library: half a minute each, both sides.
os.environ["TORCHDYNAMO_DISABLE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.model_zoo import compare, projects, table
from benchmarks.parity import helpers


def arguments(words: list[str]) -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="an installed package, or a folder")
    parser.add_argument("--site", type=Path, help="a folder of installed packages")
    parser.add_argument("--models", nargs="+", default=[], help="names, or patterns like resnet*")
    parser.add_argument("--most", type=int, help="at most this many, spread over the families")
    parser.add_argument("--max-params", type=float, default=150, help="in millions")
    parser.add_argument("--memory-mb", type=int, default=6144, help="for one model")
    parser.add_argument("--limit-s", type=float, default=60, help="processor time for one side")
    parser.add_argument("--verify", action="store_true", help="port with verification")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "fdl-zoo")
    parser.add_argument("--again", action="store_true", help="forget the port and the results")
    parser.add_argument("--report", action="store_true", help="run nothing; show what is known")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    return parser.parse_args(words)


def warm_up() -> None:
    """Load what every process needs, once: the forks share it."""
    import torch
    import torch._dynamo

    import flodl

    torch.set_num_threads(1)
    # A torchvision whose library was built for another machine can be imported all the same.
    helpers.install()
    layer = torch.nn.Linear(1, 1)
    torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9).step()
    del flodl


def run(options: Any, work: Path, models: list[tuple[str, str]]) -> None:
    """Compare all models that have no result yet."""
    started = time.monotonic()
    for name, _ in models:
        target = work / "results" / f"{name}.json"
        if target.is_file():
            continue
        found = compare.compare(
            work / "original",
            work / "ported",
            name,
            max_params=int(options.max_params * 1e6),
            memory_mb=options.memory_mb,
            limit_s=options.limit_s,
        )
        beside = target.with_suffix(".tmp")
        beside.write_text(json.dumps(found), encoding="utf-8")
        beside.replace(target)
        why = found.get("why") or found.get("differs") or found["shape"]
        print(
            f"[{time.monotonic() - started:6.0f} s] {name}: {found['status']} {why}",
            file=sys.stderr,
        )


def known(work: Path, models: list[tuple[str, str]]) -> table.Results:
    """Return the results that there are."""
    files = {name: work / "results" / f"{name}.json" for name, _ in models}
    return {
        name: json.loads(file.read_text(encoding="utf-8"))
        for name, file in files.items()
        if file.is_file()
    }


def main(words: list[str]) -> int:
    """Port, compare what is missing and print the table."""
    options = arguments(words)
    if options.site is not None:
        sys.path.append(str(options.site))
    name, folder = projects.find(options.source)
    work = options.work.resolve() / name
    if options.again:
        shutil.rmtree(work, ignore_errors=True)
    (work / "results").mkdir(parents=True, exist_ok=True)
    projects.copy(name, folder, work / "original")
    port = projects.port(
        work / "original", work / "ported", work / "port.json", verified=options.verify
    )
    warm_up()
    models = compare.listed(work / "original", options.models, options.most)
    if not options.report:
        run(options, work, models)
    data = table.summary(dict(models), known(work, models), port)
    print(json.dumps(data, indent=1) if options.json else table.text(data, by_family=True))
    return 0 if data["models"] and data["equal"] == data["models"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
