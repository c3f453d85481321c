"""Inputs from inside of a network are in its memory format, and need gradients there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.porter.verify.examining import examine_files

pytestmark = [pytest.mark.torch, pytest.mark.slow]

# The backward pass of GroupNorm ends the process for a `channels_last` input that needs no gradient.
TEXT = """
import torch
from torch import nn


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(32, 64)
        self.conv = nn.Conv2d(64, 8, 3, padding=1)

    def forward(self, x):
        y = self.norm(x)
        return self.conv(y * torch.sigmoid(y))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.inner = Normed()

    def forward(self, x):
        return self.inner(self.first(x).contiguous(memory_format=torch.channels_last))
"""


def test_a_block_is_trained_with_what_the_network_around_it_gives_it(tmp_path: Path) -> None:
    folders = [tmp_path / "original", tmp_path / "ported"]
    for folder in folders:
        folder.mkdir()
        (folder / "model.py").write_text(TEXT, encoding="utf-8")
    first, second = (folder / "model.py" for folder in folders)
    example = "Normed(): torch.randn(2, 64, 8, 8).contiguous(memory_format=torch.channels_last)"
    found = examine_files(
        first,
        second,
        ("Outer", "Normed"),
        workdir=tmp_path / "work",
        limit_s=60.0,
        examples=(example,),
    )
    assert {name: result["status"] for name, result in found.items()} == {
        "Outer": "equal",
        "Normed": "equal",
    }
