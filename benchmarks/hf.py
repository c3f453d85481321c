"""Models of transformers, switched to flow graphs in place by `flodl.hf.graph`, against themselves.

Run: `python benchmarks/hf.py [--family NAME]... [--json FILE]` (some ten minutes, one thread; needs
`pip install "transformers>=4.57,<5"`).  Each family runs in a process of its own, on a small random
configuration.  `equal` means: the same `state_dict` keys, and the same bits in the outputs of an eval call
and of a training call with equal seeds, and in all gradients of the latter.  `value` means that a captured
value of a submodule has the bits that a forward hook of the original gets.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from torch.utils import _pytree as pytree

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import flodl  # noqa: E402
import flodl.hf  # noqa: E402
from benchmarks.shared import conditions  # noqa: E402
from benchmarks.world_mutation.families import FAMILIES, Family, Shape  # noqa: E402

KNOWN = {family.name: family for family in FAMILIES if family.library == "transformers"}
RESULT = ROOT / "benchmarks" / "results" / "hf.json"
LIMIT_S = 600
CHECKS = ("keys", "eval", "train", "gradients", "value")


def tensors(found: Any) -> list[torch.Tensor]:
    # The output classes of original and port are two, so their fields are compared.
    whole = tuple(found.values()) if isinstance(found, dict) else found
    return [each for each in pytree.tree_leaves(whole) if isinstance(each, torch.Tensor)]


def equal(ones: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(ones) == len(others) and all(
        one.dtype == other.dtype and torch.equal(one.nan_to_num(), other.nan_to_num())
        for one, other in zip(ones, others, strict=True)
    )


def called(model: Any, values: dict[str, Any], *, train: bool) -> list[torch.Tensor]:
    torch.manual_seed(5)
    np.random.seed(5)  # the masks of speech models
    return tensors(model.train(train)(**copy.deepcopy(values)))


def gradients(model: Any, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    model.zero_grad(set_to_none=True)
    wanted = [each for each in outputs if each.requires_grad and each.is_floating_point()]
    sum(each.float().square().sum() for each in wanted).backward()
    return [each.grad for each in model.parameters() if each.grad is not None]


def captured(plain: Any, twin: Any, values: dict[str, Any]) -> bool:
    """Return True if a value of the graph is that of a hook of the original, for one layer."""
    seen: dict[str, torch.Tensor] = {}

    def hook(name: str) -> Any:
        def see(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
            seen.setdefault(name, output)  # a hook that returned it would replace a later output

        return see

    handles = [
        each.register_forward_hook(hook(name))
        for name, each in plain.named_modules()
        if type(each) in (torch.nn.Linear, torch.nn.Conv2d, torch.nn.LayerNorm)
    ]
    called(plain, values, train=False)
    for each in handles:
        each.remove()
    called(twin, values, train=False)  # names are known after a run
    names = {each.name for each in flodl.view(twin).names()}
    for name, value in seen.items():
        if name in names:
            with flodl.view(twin).capture(name) as cache:
                called(twin, values, train=False)
            return equal(tensors(dict(cache)[name]), [value])
    return False


def measure(family: Family) -> dict[str, Any]:
    home = importlib.import_module(family.module)
    configuration = family.configuration()
    plain = family.build(home, configuration)
    values = family.inputs(Shape(), configuration)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        twin = flodl.hf.graph(copy.deepcopy(plain))
    seconds = time.perf_counter() - began
    keys = list(plain.state_dict()) == list(twin.state_dict())
    with torch.no_grad():
        evaluated = equal(*(called(each, values, train=False) for each in (plain, twin)))
    outputs = [called(each, values, train=True) for each in (plain, twin)]
    trained = equal(*outputs)
    graded = equal(*(gradients(m, o) for m, o in zip((plain, twin), outputs, strict=True)))
    try:
        with torch.no_grad():
            value = captured(plain, twin, values)
    except RuntimeError as error:  # the rest of the row stands
        print(f"{family.name}: capture: {error}", file=sys.stderr)
        value = False
    kinds = {type(each) for each in twin.modules()}
    kept = [str(each.message) for each in told if "the porter keeps" in str(each.message)]
    return {
        "family": family.name,
        "model": family.model,
        "graphs": sum(1 for kind in kinds if kind.__module__.startswith("flodl.hf.ported.")),
        "kept": kept[0].partition(" keeps ")[2].partition(" of ")[0] if kept else "",
        "keys": keys,
        "eval": evaluated,
        "train": trained,
        "gradients": graded,
        "value": value,
        "switch_s": round(seconds, 1),
    }


def measured_apart(name: str) -> dict[str, Any]:
    """Measure one family in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--child", "--family", name],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"family": name, "error": last[0][:300]}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"| {row['family']} | - | {row['error']} | |"
    wrong = [name for name in CHECKS if not row[name]]
    state = f"not: {', '.join(wrong)}" if wrong else "equal"
    return f"| {row['family']} | {row['graphs']} | {state} | {row['kept']} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", choices=sorted(KNOWN))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        print(json.dumps(measure(KNOWN[options.family[0]])))
        return
    print("| Family | Graphs | Original and port | Kept classes |\n|---|---:|---|---|")
    rows, before = [], conditions.measured("torch", "transformers")
    for name in options.family or sorted(KNOWN):
        rows.append(measured_apart(name))
        print(line(rows[-1]), flush=True)
    if options.json:
        if options.family and options.json.exists():  # these rows replace those of before
            old = json.loads(options.json.read_text("utf-8"))["rows"]
            rows = sorted(
                [*rows, *(each for each in old if each["family"] not in options.family)],
                key=lambda each: str(each["family"]),
            )
        text = json.dumps({"measured": conditions.ended(before), "rows": rows}, indent=1) + "\n"
        options.json.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
