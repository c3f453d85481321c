"""Models that compute in doubles are turned into doubles before they are called, on both sides."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.inputs.watched_calls import runs_again
from flodl_verify.sandbox.attempt import Failure
from flodl_verify.values.precision import is_double, wants_double
from flodl_verify.values.recipes import unpack
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch

SINE = """
import torch
from torch import nn


class Sine(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(1, 5)
        self.head = Head()

    def forward(self, x):
        h = torch.zeros(x.size(0), 5, dtype=torch.double)
        c = torch.zeros(x.size(0), 5, dtype=torch.double)
        outputs = []
        for step in x.split(1, dim=1):
            h, c = self.cell(step, (h, c))
            outputs += [self.head(h)]
        return torch.cat(outputs, dim=1)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 1)

    def forward(self, h):
        return self.linear(h)
"""


@pytest.mark.parametrize("name", ["Sine", "Head"])
def test_a_model_with_states_in_doubles_is_called_in_doubles(tmp_path: Path, name: str) -> None:
    side = opened(tmp_path, textwrap.dedent(SINE))
    book = CaseFinder(side, ("Sine",), budget_s=60.0)
    book.add_expressions()
    book.add_guesses()
    assert not book.missing
    case = next(case for case in book.cases[name] if case.construction.double)
    with side.active():
        (given, *_), _ = unpack(case.inputs, side)
        model = case.construction.build(side)
    assert isinstance(given, torch.Tensor)
    assert given.dtype == torch.float64
    assert is_double(model)
    assert runs_again(side, case)
    assert torch.get_default_dtype() == torch.float32


def test_what_is_in_doubles() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    assert not is_double(net)
    assert not is_double(torch.nn.ReLU().double())
    assert is_double(net.double())
    net[0].float()
    assert not is_double(net)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("mat1 and mat2 must have the same dtype, but got Double and Float", True),
        ("expected scalar type Double but found Float", True),
        ("expected m1 and m2 to have the same dtype, but got: float != double", True),
        ("mat1 and mat2 must have the same dtype, but got Long and Float", False),
        ("double backward is not implemented for float", False),
    ],
)
def test_what_asks_for_doubles(text: str, wanted: bool) -> None:
    assert wants_double(Failure(text=f"RuntimeError: {text}", line=None)) == wanted
