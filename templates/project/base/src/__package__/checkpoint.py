"""Checkpoints: complete, written in one step, and loaded without running code from them."""

import os
import tempfile
from pathlib import Path
from typing import Any

import torch

PATTERN = "epoch-*.pt"


def save(folder: Path, epoch: int, state: dict[str, Any], keep: int) -> Path:
    """Write `epoch-0003.pt` whole or not at all, then drop all but the newest `keep`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"epoch-{epoch:04d}.pt"
    descriptor, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    for old in sorted(folder.glob(PATTERN))[:-keep]:
        old.unlink()
    return path


def latest(folder: Path) -> Path | None:
    """Return the newest checkpoint of a folder, if there is one."""
    found = sorted(folder.glob(PATTERN))
    return found[-1] if found else None


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; tensors and plain values only."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
