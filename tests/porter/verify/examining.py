"""Examines one class in this process, which is fast enough for a hundred mutations."""

from __future__ import annotations

import argparse
import builtins
import contextlib
import gc
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from flodl_verify.compare.rounds import examine
from flodl_verify.protocol import Request
from flodl_verify.sandbox.containment import contained
from flodl_verify.sandbox.isolated_import import Label
from flodl_verify.sides.wire import Fields, Store, Stored
from flodl_verify.sides.worker import Worker

TWINS = Path(__file__).parents[2] / "data" / "twins"
ClassEvidence = dict[str, Any]

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


@contextmanager
def without_collection_callbacks() -> Iterator[None]:
    """Take away the callbacks of collections: a time limit that ends inside of one would be lost.

    Hypothesis has one, which a process of its own, as users have it, does not import.
    """
    before = gc.callbacks[:]
    gc.callbacks.clear()
    try:
        yield
    finally:
        gc.callbacks[:] = before


class InlineChannel:
    """A worker in this process: fast, and within reach of `monkeypatch`."""

    def __init__(self, request: Request, label: Label, text: bytes) -> None:
        self._inbox, self._outbox = Store.make(), Store.make()
        self._worker = Worker(request, label, text, self._inbox, self._outbox)

    def ask(self, question: Fields, data: bytes | memoryview | None) -> tuple[Fields, Stored]:
        self._inbox.clear()
        if data is not None:
            self._inbox.add(data)
        answer = self._worker.answer(json.loads(json.dumps(question)))
        return json.loads(json.dumps(answer)), self._outbox.read()


class Answers:
    """The results of an examination."""

    def __init__(self) -> None:
        self.results: dict[str, ClassEvidence] = {}
        self.error: str | None = None
        self.source_runs = True
        self.needed_s: float | None = None

    def start(self, name: str, side: str) -> None:
        pass

    def add(self, result: Any) -> None:
        self.results[result.name] = asdict(result)

    def need(self, seconds: float) -> None:
        self.needed_s = seconds

    def fail(self, error: str, *, source_runs: bool) -> None:
        self.error, self.source_runs = error, source_runs


def examine_files(
    original: Path,
    ported: Path,
    names: tuple[str, ...],
    *,
    workdir: Path,
    examples: tuple[str, ...] = (),
    limit_s: float = 90.0,
    class_limit_s: float | None = None,
) -> dict[str, ClassEvidence]:
    """Examine names of two files in this process; return the results by name."""
    workdir.mkdir(exist_ok=True)
    request = Request(
        task="check",
        original=original,
        ported=ported,
        classes=names,
        examples=examples,
        search_path=(),
        workdir=workdir,
        limit_s=limit_s,
        class_limit_s=limit_s / 2 if class_limit_s is None else class_limit_s,
        memory_mb=4096,
    )
    answers = Answers()
    # TorchScript would compile a function anew at its third call or so.
    unchanging = torch.jit.optimized_execution(False)
    folders = (original.parent, ported.parent)
    # What a worker sets aside ends with it; here it would stay, with its open files, for all later tests.
    collectable = mock.patch.object(gc, "freeze")
    inside = (own_files(), contained(workdir, folders), unchanging, without_collection_callbacks())
    with contextlib.ExitStack() as stack, collectable:
        for each in inside:
            stack.enter_context(each)
        examine(
            request,
            answers,
            InlineChannel(request, "original", original.read_bytes()),
            InlineChannel(request, "port", ported.read_bytes()),
        )
    assert answers.error is None or not answers.source_runs, answers.error
    return answers.results


def statuses(result: ClassEvidence) -> dict[str, str]:
    """Return the status of each check by its name."""
    return {check["name"]: check["status"] for check in result["checks"]}
