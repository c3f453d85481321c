"""A function of TorchScript computes the same bits in its first call as in later ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.porter.verify.test_stopped_imports import examined

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GATED = """
import torch
from torch import nn

@torch.jit.script
def gated(a, b, n):
    width = n[0]
    both = a + b
    return torch.tanh(both[:, :width, :]) * torch.sigmoid(both[:, width:, :])

class Gated(nn.Module):
    def __init__(self, width=4, layers=4):
        super().__init__()
        self.width = width
        self.convs = nn.ModuleList([nn.Conv1d(width, 2 * width, 3, padding=1) for _ in range(layers)])
        self.conditions = nn.Conv1d(width, 2 * width, 1)
        self.outs = nn.ModuleList([nn.Conv1d(width, 2 * width, 1) for _ in range(layers)])

    def forward(self, audio, spect):
        n = torch.IntTensor([self.width])
        total = torch.zeros_like(audio)
        for conv, out in zip(self.convs, self.outs):
            both = out(gated(conv(audio), self.conditions(spect), n))
            audio = audio + both[:, : self.width]
            total = total + both[:, self.width :]
        return total
"""


def test_bits_of_a_scripted_function_do_not_depend_on_how_often_it_ran(tmp_path: Path) -> None:
    found = examined(tmp_path, GATED, "Gated")["Gated"]
    assert found["status"] == "equal", found["detail"]
