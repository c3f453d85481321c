"""How fast checkpoints are saved, loaded and verified, as ratios to plain safetensors.

Run `python benchmarks/checkpoint.py [megabytes]`.  Bars: save and load at most 1.1 times safetensors,
verifying at most 15 % of loading and reading.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors.torch
import torch
from torch import nn

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


def main() -> None:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    width = 1024
    model = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(megabytes // 4))
    folder = Path(tempfile.mkdtemp())
    ours, theirs = folder / "m.fdl", folder / "m.safetensors"

    def plain_save() -> None:
        safetensors.torch.save_file(model.state_dict(), theirs)
        durable(theirs)

    def plain_load() -> None:
        model.load_state_dict(safetensors.torch.load_file(theirs))

    def read_all() -> None:
        # What verifying adds to: map the file and touch every byte.
        total = torch.zeros(())
        for each in safetensors.torch.load_file(theirs).values():
            total += each.view(torch.int64).sum()

    save(model, ours)
    plain_save()
    found = interleaved(
        {
            "safetensors save + fsync": plain_save,
            "fdl save": lambda: save(model, ours),
            "safetensors load into model": plain_load,
            "fdl load into model, verified": lambda: load(model, ours),
            "safetensors load + read all": read_all,
            "fdl verify": lambda: verify(ours),
        }
    )
    for name, seconds in found.items():
        print(f"{name:32} {seconds * 1000:8.1f} ms")
    pairs = [
        ("save", "fdl save", "safetensors save + fsync", 1.1),
        ("load", "fdl load into model, verified", "safetensors load into model", 1.1),
    ]
    for word, one, other, bar in pairs:
        print(f"{word}: {found[one] / found[other]:.2f} of safetensors (bar {bar})")
    loading = found["fdl load into model, verified"]
    print(f"verify: {found['fdl verify'] / loading:.2f} of loading and reading (bar 0.15)")
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()


if __name__ == "__main__":
    main()
