"""How fast checkpoints are saved, loaded and verified, as ratios to plain safetensors.

Run `python benchmarks/checkpoint.py [megabytes]`.  Bars: save and load at most 1.1 times safetensors,
verifying at most 15 % of loading and reading: what a load pays for its checksums, and what
`fdl checkpoint verify` takes beside torch.load and a read of every byte.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import safetensors.torch
import torch
from torch import nn

from flodl.checkpoint.contents import SafetensorsContents
from flodl.checkpoint.files import verify
from flodl.checkpoint.store import load, save

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 15


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the best seconds of each work; rounds alternate, so that noise hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(timed(work))
    return {name: min(each) for name, each in times.items()}


def durable(path: Path) -> None:
    """Flush a file to the disk, as a checkpoint must be."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def read_all(tensors: dict[str, torch.Tensor]) -> None:
    """Touch every byte of some tensors."""
    for each in tensors.values():
        each.view(torch.int64).sum()


def works(model: nn.Module, folder: Path) -> dict[str, Callable[[], object]]:
    """Return what is measured, by name; the files to load are made here."""
    ours, theirs, pickled = folder / "m.fdl", folder / "m.safetensors", folder / "m.pt"

    def plain_save() -> None:
        safetensors.torch.save_file(model.state_dict(), theirs)
        durable(theirs)

    def unverified_load() -> None:
        with patch.object(SafetensorsContents, "problems", lambda _: ()):
            load(model, ours)

    save(model, ours)
    plain_save()
    torch.save(model.state_dict(), pickled)
    return {
        "safetensors save + fsync": plain_save,
        "fdl save": lambda: save(model, ours),
        "safetensors load into model": lambda: model.load_state_dict(
            safetensors.torch.load_file(theirs)
        ),
        "fdl load into model, verified": lambda: load(model, ours),
        "fdl load into model, unverified": unverified_load,
        "torch.load + read all": lambda: read_all(torch.load(pickled, weights_only=True)),
        "safetensors load + read all": lambda: read_all(safetensors.torch.load_file(theirs)),
        "fdl verify": lambda: verify(ours),
    }


def report(found: dict[str, float]) -> None:
    """Print the seconds of each work and the ratios with their bars."""
    for name, seconds in found.items():
        print(f"{name:32} {seconds * 1000:8.1f} ms")
    pairs = [
        ("save", "fdl save", "safetensors save + fsync"),
        ("load", "fdl load into model, verified", "safetensors load into model"),
    ]
    for word, one, other in pairs:
        print(f"{word}: {found[one] / found[other]:.2f} of safetensors (bar 1.1)")
    whole = found["fdl load into model, verified"]
    extra = whole - found["fdl load into model, unverified"]
    print(f"verify: {extra / whole:.2f} of a load (bar 0.15)")
    for rival in ("torch.load + read all", "safetensors load + read all"):
        print(f"verify alone: {found['fdl verify'] / found[rival]:.2f} of {rival}")


def main() -> None:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    model = nn.ModuleList(nn.Linear(1024, 1024, bias=False) for _ in range(megabytes // 4))
    with tempfile.TemporaryDirectory() as folder:
        report(interleaved(works(model, Path(folder))))


if __name__ == "__main__":
    main()
