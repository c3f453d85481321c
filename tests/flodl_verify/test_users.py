"""Blocks take their arguments and inputs from models and tests in other files of the project."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sandbox.isolated_import import open_sides

pytestmark = pytest.mark.torch

BLOCKS = """
from torch import nn


class Branches(nn.Module):
    def __init__(self, layers, weights):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.weights = weights["of branches"]

    def forward(self, x, rows):
        kept = [layer(x[row]) * weight for layer, row, weight in
                zip(self.layers, rows["which"], self.weights)]
        return sum(kept)


class Tested(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.fc = nn.Linear(*table["sizes of it"])

    def forward(self, pair):
        return self.fc(pair["left of it"]) + pair["right of it"]


class Unused(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.fc = nn.Linear(*table["nobody knows"])

    def forward(self, pair):
        return self.fc(pair)
"""
NET = """
from torch import nn
from parts.blocks import Branches


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        layers = [nn.Linear(width, width) for _ in range(2)]
        self.both = Branches(layers, {"of branches": (0.5, 0.25)})

    def forward(self, x):
        return self.both(x, {"which": (0, 1)})
"""
TESTS = """
import pytest
import torch
from parts.blocks import Tested


@pytest.mark.parametrize("width", [3, 4])
@pytest.mark.parametrize(("rows", "bias"), [(2, True)])
def test_sums(rows, width, bias):
    module = Tested({"sizes of it": (width, 5)})
    out = module({"left of it": torch.ones(rows, width), "right of it": torch.ones(5)})
    assert out.shape == (rows, 5), bias


def test_with_a_fixture(something):
    raise AssertionError
"""


@pytest.mark.slow
def test_cases_come_from_models_and_tests_around(tmp_path: Path) -> None:
    files = {"parts/blocks.py": BLOCKS, "models/net.py": NET, "tests/test_blocks.py": TESTS}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, encoding="utf-8")
    file = tmp_path / "parts" / "blocks.py"
    ported = tmp_path / "elsewhere" / "blocks_flodl.py"
    ported.parent.mkdir()
    ported.write_text(BLOCKS, encoding="utf-8")
    original, port = open_sides(file, ported, (tmp_path / "parts", tmp_path))
    original.load()
    port.load()
    book = CaseFinder(original, ("Branches", "Tested", "Unused"), budget_s=60.0)
    book.add_guesses()
    assert book.missing == ("Branches", "Tested", "Unused")
    book.add_users()
    assert book.missing == ("Unused",), book.reasons
    assert book.cases["Branches"][0].origin == "seen in `net.py`"
    assert len(book.cases["Tested"]) == 2
    with original.active():
        model = book.cases["Branches"][0].construction.build(original)
    assert len(list(model.parameters())) == 4
    # By whatever name the program imports the file, the port's side gives the port.
    for side, home in ((original, file), (port, ported)):
        with side.active():
            assert importlib.import_module("parts.blocks") is side.module
            made = type(book.cases["Branches"][0].construction.build(side))
            assert Path(inspect.getfile(made)) == home
