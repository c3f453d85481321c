"""How fast checkpoints are saved, loaded and verified, as ratios to plain safetensors.

Run `python benchmarks/checkpoint.py [megabytes]`.  Bars: save and load, with all checksums, at most 1.1 times
safetensors, which has none; verifying at most 15 % of loading and reading.  "From disk" means that the kernel
was told to forget the file before each round; "first" that this process knows nothing of the file, which the
page cache still holds: then its bytes are read twice, once to check all of them and once to copy them.
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

from flodl.checkpoint import sound
from flodl.checkpoint.contents import SafetensorsContents
from flodl.checkpoint.files import verify
from flodl.checkpoint.store import load, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Work: TypeAlias = tuple[Callable[[], object], Callable[[], object]]

ROUNDS = 15


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(works: dict[str, Work]) -> dict[str, float]:
    """Return the best seconds of each work; rounds alternate, so that noise hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, (before, work) in works.items():
            before()
            # torch's threads of the work before wait for more, and keep a core busy.
            time.sleep(0.05)
            times[name].append(timed(work))
    return {name: min(each) for name, each in times.items()}


def forget(path: Path) -> None:
    """Drop a file from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def unknown(path: Path) -> None:
    """Drop a file from the page cache, and what this process knows of it."""
    forget(path)
    sound.forget_all()


def durable(path: Path) -> None:
    """Flush a file to the disk, as a checkpoint must be."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def read_all(tensors: dict[str, torch.Tensor]) -> None:
    """Touch every byte of some tensors."""
    for each in tensors.values():
        each.view(torch.int64).sum()


def works(model: nn.Module, folder: Path) -> dict[str, Work]:
    """Return what is measured, by name, each with what is done before; the files to load are made here."""
    ours, theirs, pickled = folder / "m.fdl", folder / "m.safetensors", folder / "m.pt"

    def plain_save() -> None:
        safetensors.torch.save_file(model.state_dict(), theirs)
        durable(theirs)

    def unverified_load() -> None:
        with patch.object(SafetensorsContents, "prepare_copy", lambda _: None):
            load(model, ours)

    save(model, ours)
    plain_save()
    torch.save(model.state_dict(), pickled)

    def plain_load() -> None:
        model.load_state_dict(safetensors.torch.load_file(theirs))

    warm = {
        "safetensors save + fsync": plain_save,
        "fdl save": lambda: save(model, ours),
        "safetensors load into model": plain_load,
        "fdl load into model, verified": lambda: load(model, ours),
        "fdl load into model, no checks": unverified_load,
        "torch.load + read all": lambda: read_all(torch.load(pickled, weights_only=True)),
        "safetensors load + read all": lambda: read_all(safetensors.torch.load_file(theirs)),
        "fdl verify": lambda: verify(ours),
    }
    found: dict[str, Work] = {name: (lambda: None, work) for name, work in warm.items()}
    found["fdl first load, verified"] = (sound.forget_all, lambda: load(model, ours))
    found["safetensors load from disk"] = (lambda: forget(theirs), plain_load)
    found["fdl load from disk, verified"] = (lambda: unknown(ours), lambda: load(model, ours))
    found["fdl load from disk, no checks"] = (lambda: forget(ours), unverified_load)
    return found


def report(found: dict[str, float]) -> None:
    """Print the seconds of each work and the ratios with their bars."""
    for name, seconds in found.items():
        print(f"{name:32} {seconds * 1000:8.1f} ms")
    pairs = [
        ("save", "fdl save", "safetensors save + fsync"),
        ("load", "fdl load into model, verified", "safetensors load into model"),
        ("first load from memory", "fdl first load, verified", "safetensors load into model"),
        ("load from disk", "fdl load from disk, verified", "safetensors load from disk"),
    ]
    for word, one, other in pairs:
        print(f"{word}: {found[one] / found[other]:.2f} of safetensors (bar 1.1)")
    for word, name in (("", "into model"), (" from disk", "from disk")):
        whole = found[f"fdl load {name}, verified"]
        extra = whole - found[f"fdl load {name}, no checks"]
        print(f"checksums: {extra / whole:.2f} of a verified load{word}")
    for rival in ("torch.load + read all", "safetensors load + read all"):
        print(f"verify: {found['fdl verify'] / found[rival]:.2f} of {rival} (bar 0.15)")


def main() -> None:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    model = nn.ModuleList(nn.Linear(1024, 1024, bias=False) for _ in range(megabytes // 4))
    with tempfile.TemporaryDirectory() as folder:
        report(interleaved(works(model, Path(folder))))


if __name__ == "__main__":
    main()
