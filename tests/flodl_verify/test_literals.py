"""Examples and constructor calls are read from text without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flodl_verify.sources.literals import ExampleSyntaxError, model_expressions, parse_example

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("text", "model", "inputs"),
    [
        ("Net(10): torch.randn(2, 3)", "Net(10)", "torch.randn(2, 3)"),
        ("Net(cfg={'a': 1}): x, y=z", "Net(cfg={'a': 1})", "x, y=z"),
        ("Net(lambda x: x): t[:, 1:]", "Net(lambda x: x)", "t[:, 1:]"),
        ("Net()", "Net()", None),
        ("model: torch.ones(1)", "model", "torch.ones(1)"),
        ("Net():", "Net()", ""),
        ("Net(s='a:b'): 1", "Net(s='a:b')", "1"),
        ("(lambda: Net())(): 2", "(lambda: Net())()", "2"),
    ],
)
def test_example_is_split_at_the_first_free_colon(
    text: str, model: str, inputs: str | None
) -> None:
    example = parse_example(text)
    assert (example.model, example.inputs) == (model, inputs)


@pytest.mark.parametrize("text", ["", "Net(: 1", "Net(): torch.randn(", "a b: 1", "Net(): 1 2"])
def test_a_wrong_example_shows_a_right_one(text: str) -> None:
    with pytest.raises(ExampleSyntaxError):
        parse_example(text)


SOURCE = """
import torch
from torch import nn
WIDTH = 8

class Net(nn.Module):
    def __init__(self, width): ...

class Other(nn.Module): ...

def resnet(width=8, *, flag=False):
    return Net(width)

def wrapped():
    return resnet()

def needs(width):
    return Net(width)

def unrelated():
    return 3

if __name__ == "__main__":
    local = 3
    net = Net(WIDTH)
    for i in range(3):
        Net(unknown_name)
"""


def test_calls_that_stand_alone_and_factories_are_found(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(SOURCE, encoding="utf-8")
    assert model_expressions(file, ("Net", "Other")) == ("Net(WIDTH)", "resnet()", "wrapped()")
