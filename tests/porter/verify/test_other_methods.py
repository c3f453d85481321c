# ruff: noqa: E501
"""Public methods that the forward does not use are compared where arguments can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.porter.verify.examining import examine_files, statuses

pytestmark = pytest.mark.torch

SOURCE = """
import time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(6, 3)
        self.up = nn.Linear(3, 6)

    def forward(self, x):
        return self.up(torch.tanh(self.down(x)))

    def encode(self, x):
        return torch.tanh(self.down(x))

    def decode(self, code):
        return self.up(code)

    def sample(self, num_samples):
        return self.up(torch.randn(num_samples, 3))

    def generate(self, x, max_steps):
        for _ in range(max_steps):
            x = self(x)
        return x

    def save(self, path):
        raise RuntimeError("never called")

    def endless(self, x):
        while True:
            time.sleep(0.01)

    def names(self):
        return [name for name, _ in self.named_parameters()]
"""
FAULTS = {
    "encode": ("        return torch.tanh(self.down(x))\n\n    def decode", "        return self.down(x)\n\n    def decode"),
    "decode": ("return self.up(code)", "return self.up(code) + 1"),
    "sample": ("self.up(torch.randn(num_samples, 3))", "self.up(torch.rand(num_samples, 3))"),
    "generate": ("range(max_steps)", "range(max_steps - 1)"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nothing", *FAULTS])
def test_methods_beside_forward_are_compared(name: str, tmp_path: Path) -> None:
    original, port = tmp_path / "net.py", tmp_path / "net_flodl.py"
    before, after = FAULTS.get(name, ("", ""))
    assert SOURCE.count(before) == 1 or not before
    original.write_text(SOURCE, encoding="utf-8")
    port.write_text(SOURCE.replace(before, after) if before else SOURCE, encoding="utf-8")
    found = examine_files(
        original, port, ("Net",), workdir=tmp_path / "work", examples=("Net(): torch.randn(2, 6)",)
    )["Net"]
    assert statuses(found)["methods"] == ("equal" if name == "nothing" else "different"), found
    if name != "nothing":
        assert name in next(
            item["detail"] for item in found["checks"] if item["name"] == "methods"
        )
