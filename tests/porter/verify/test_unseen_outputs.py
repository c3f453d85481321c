"""A class is equal only if all of what it returns and sets was compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.porter.verify.examining import ClassEvidence, examine_files, statuses

pytestmark = pytest.mark.torch

NET = """
import threading
from collections import deque

import torch
from torch import nn


class Box:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.lock = threading.local()
        self.seen = deque(maxlen=3)

    def forward(self, x):
        y = self.fc(x)
        {body}
"""


def compared(folder: Path, original: str, port: str) -> ClassEvidence:
    first, second = folder / "net.py", folder / "net_flodl.py"
    first.write_text(NET.replace("{body}", original), encoding="utf-8")
    second.write_text(NET.replace("{body}", port), encoding="utf-8")
    example = ("Net(): torch.randn(2, 4)",)
    return examine_files(first, second, ("Net",), workdir=folder / "work", examples=example)["Net"]


HIDDEN = {
    "__slots__": ("return Box(y)", "return Box(y + 1)"),
    "generator": ("return (item for item in [y, y])", "return (item for item in [y, y + 1])"),
    "attribute of a tensor": ("y.mark = y * 2; return y", "y.mark = y * 3; return y"),
    "deque of the module": (
        "self.seen.append(y.detach()); return y",
        "self.seen.append(y.detach() + 1); return y",
    ),
    "array": ("return y, y.detach().numpy() * 1", "return y, y.detach().numpy() * 2"),
}


@pytest.mark.parametrize(("original", "port"), HIDDEN.values(), ids=HIDDEN)
def test_port_that_differs_in_a_hidden_part_is_different(
    original: str, port: str, tmp_path: Path
) -> None:
    assert compared(tmp_path, original, port)["status"] == "different"


@pytest.mark.parametrize("original", [first for first, _ in HIDDEN.values()], ids=HIDDEN)
def test_port_with_the_same_hidden_part_is_equal(original: str, tmp_path: Path) -> None:
    result = compared(tmp_path, original, original)
    assert result["status"] == "equal", result["detail"]
    assert "attributes not compared: lock (_thread._local)" in result["detail"]


def test_output_that_cannot_be_looked_into_is_not_compared(tmp_path: Path) -> None:
    body = "return y, threading.local()"
    result = compared(tmp_path, body, body)
    assert (result["status"], result["error_code"]) == ("not-run", "not-compared")
    assert "output/1: a value of type _thread._local is not compared" in result["detail"]
    assert statuses(result)["eval output"] == "not-run"
    assert statuses(result)["gradients"] == "equal"


def test_attribute_that_a_call_sets_and_that_cannot_be_looked_into_is_not_compared(
    tmp_path: Path,
) -> None:
    body = "self.state = threading.local(); return y"
    result = compared(tmp_path, body, body)
    assert (result["status"], result["error_code"]) == ("not-run", "not-compared")
    assert "attributes/state: a value of type _thread._local" in result["detail"]


def test_difference_beside_an_unseen_part_is_different(tmp_path: Path) -> None:
    result = compared(tmp_path, "return y, threading.local()", "return y + 1, threading.local()")
    assert result["status"] == "different"
