"""A checkpoint is written whole or not at all, and only the newest are kept."""

from pathlib import Path
from typing import Any

import pytest
import torch

from {{ package }} import checkpoint


def test_save_load_and_prune(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        checkpoint.save(tmp_path, epoch, {"epoch": epoch, "x": torch.ones(2)}, keep=2)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["epoch-0002.pt", "epoch-0003.pt"]
    newest = checkpoint.latest(tmp_path)
    assert newest is not None
    assert checkpoint.load(newest)["epoch"] == 3
    assert checkpoint.latest(tmp_path / "none") is None


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checkpoint.save(tmp_path, 1, {"epoch": 1}, keep=2)
    before = path.read_bytes()

    def dies_half_way(state: Any, target: Any) -> None:
        raw = b"half a file"
        if isinstance(target, (str, Path)):
            Path(target).write_bytes(raw)
        else:
            target.write(raw)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", dies_half_way)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(tmp_path, 1, {"epoch": 1}, keep=2)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
