"""Ports that keep a value of the first call are found by a call after a change of the world."""

from __future__ import annotations

from pathlib import Path

import pytest

from flodl_verify.compare import case_comparison
from tests.porter.verify.examining import ClassEvidence, examine_files, statuses

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave time for all changes, however busy the machine is."""
    monkeypatch.setattr(case_comparison, "WORLD_S", 20.0)


HEAD = """
import torch
from torch import nn

KEPT = {}


class Config:
    def __init__(self):
        self._scale = 2.0
        self.mode = "sum"

    @property
    def scale(self):
        return self._scale

    @scale.setter
    def scale(self, value):
        self._scale = value


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.gain, self.noisy, self.rounds = 3.0, False, 2
        self.fc = nn.Linear(4, 4)
        self.register_buffer("shift", torch.arange(4.0))

    def kept(self, name, value):
        return value
"""
FORWARD = """
    def forward(self, x):
        x = self.fc(x).to(self.kept("dtype", self.fc.weight.dtype))
        x = x * self.kept("scale", self.config.scale) + self.kept("shift", self.shift)
        if self.kept("mode", self.config.mode) == "mean":
            x = x.mean(0, keepdim=True)
        if self.training and self.kept("noisy", self.noisy):
            x = x + torch.randn_like(x)
        return x * self.kept("gain", self.gain)
"""
KEPT = """        return KEPT.setdefault((id(self), name), value) if name == "{name}" else value"""


def compared(folder: Path, name: str, forward: str = FORWARD) -> ClassEvidence:
    """Compare a model with a twin that keeps one value of its first call."""
    original, port = folder / "net.py", folder / "port.py"
    original.write_text(HEAD + forward)
    port.write_text(HEAD.replace("        return value\n", KEPT.format(name=name)) + forward)
    calls = ("Net(): torch.randn(3, 4)",)
    found = examine_files(original, port, ("Net",), workdir=folder / "work", examples=calls)
    return found["Net"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scale", "config.scale = 3.0"),
        ("mode", "config.mode = 'mean'"),
        ("gain", "gain = 4.0"),
        ("noisy", "noisy = True"),
        ("shift", "other buffers"),
        ("dtype", "model.to(torch.float64)"),
    ],
)
def test_port_that_keeps_a_value_of_the_first_call_differs_after_a_change(
    tmp_path: Path, name: str, change: str
) -> None:
    result = compared(tmp_path, name)
    assert result["status"] == "different"
    assert result["detail"].startswith("after changes: ")
    assert f"after `{change}`" in result["detail"]
    others = {check: status for check, status in statuses(result).items() if status != "equal"}
    assert others == {"after changes": "different"}


def test_port_that_keeps_nothing_is_equal_after_changes(tmp_path: Path) -> None:
    result = compared(tmp_path, "nothing")
    assert result["status"] == "equal"
    assert statuses(result)["after changes"] == "equal"


def test_changes_under_which_the_original_raises_or_never_ends_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case_comparison, "WORLD_S", 4.0)
    forward = """
    def forward(self, x):
        rounds = self.rounds
        while rounds != 2:
            if rounds > 2:
                raise ValueError("too many rounds")
        return self.fc(x)
"""
    result = compared(tmp_path, "nothing", forward)
    assert result["status"] == "equal"
    assert statuses(result)["after changes"] == "equal"


def test_model_that_notices_no_change_has_no_such_check(tmp_path: Path) -> None:
    forward = """
    def forward(self, x):
        return torch.ones(len(x), 2)
"""
    result = compared(tmp_path, "nothing", forward)
    assert result["status"] == "equal"
    assert "after changes" not in statuses(result)
