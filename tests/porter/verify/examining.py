"""Examines one class in this process, which is fast enough for a hundred mutations."""

from __future__ import annotations

import argparse
import builtins
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

TWINS = Path(__file__).parents[2] / "data" / "twins"
ClassResult = dict[str, Any]

EXAMPLES: dict[str, tuple[str, ...]] = {
    "ConvBlock": ("ConvBlock(): torch.randn(2, 3, 8, 8)",),
    "Bottleneck": (
        "Bottleneck(): torch.randn(2, 4, 5, 5)",
        "Bottleneck(8, 4, downsample=False): torch.randn(2, 8, 5, 5)",
    ),
    "SqueezeExcite": ("SqueezeExcite(): torch.randn(2, 8, 4, 4)",),
    "Branches": ("Branches(): torch.randn(2, 4, 5, 5)",),
    "Attention": (
        "Attention(): torch.randn(2, 5, 8), mask=torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])",
    ),
    "Tagger": ("Tagger(): torch.tensor([[1, 2, 3, 0], [4, 5, 0, 0]])",),
    "Sampler": ("Sampler(): torch.randn(4, 6)",),
    "Refiner": ("Refiner(): torch.randn(4, 5), torch.randn(4, 5)",),
    "Affine": ("Affine(): torch.randn(4, 6) * 3",),
    "InPlace": ("InPlace(): torch.randn(3, 4)",),
    "TwoInputs": ("TwoInputs(): torch.randn(3, 4), torch.randn(3, 4)",),
    "UpSkip": ("UpSkip(): torch.randn(2, 4, 7, 9)",),
    "model": ("model: torch.randn(3, 4)",),
}


@contextmanager
def own_files() -> Iterator[None]:
    """Take back what the examination does to `open` and the like, which ends with its process elsewhere."""
    places: tuple[tuple[Any, str], ...] = (
        (np, "loadtxt"),
        (np, "genfromtxt"),
        (builtins, "open"),
        (io, "open"),
        (argparse.ArgumentParser, "parse_known_args"),
        (torch, "load"),
        (torch.hub, "load_state_dict_from_url"),
        (torch.nn.Module, "load_state_dict"),
        (torch.optim.Optimizer, "load_state_dict"),
    )
    before = [getattr(owner, name) for owner, name in places]
    try:
        yield
    finally:
        for (owner, name), value in zip(places, before, strict=True):
            setattr(owner, name, value)


def examine_files(
    original: Path,
    ported: Path,
    names: tuple[str, ...],
    *,
    workdir: Path,
    examples: tuple[str, ...] = (),
    limit_s: float = 90.0,
    class_limit_s: float | None = None,
) -> dict[str, ClassResult]:
    """Examine names of two files in this process; return the results by name."""
    from flodl.verify.protocol import Request, Response
    from flodl.verify.rounds import examine

    workdir.mkdir(exist_ok=True)
    request = Request(
        task="check",
        original=original,
        ported=ported,
        classes=names,
        examples=examples,
        search_path=(),
        workdir=workdir,
        recording=None,
        limit_s=limit_s,
        class_limit_s=limit_s / 2 if class_limit_s is None else class_limit_s,
        memory_mb=4096,
    )
    file = workdir / "response.json"
    response = Response(file)
    with own_files():
        examine(request, response)
    response.finish()
    answer = json.loads(file.read_text(encoding="utf-8"))
    assert answer["error"] is None or not answer["source_runs"], answer["error"]
    assert answer["done"]
    return {item["name"]: item for item in answer["classes"]}


def statuses(result: ClassResult) -> dict[str, str]:
    """Return the status of each check by its name."""
    return {check["name"]: check["status"] for check in result["checks"]}
