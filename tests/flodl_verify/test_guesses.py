"""Inputs and constructor arguments are found for common kinds of models without help."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.inputs.rules.layer_shapes import guess_arguments
from flodl_verify.sandbox.isolated_import import open_sides

pytestmark = pytest.mark.torch

SCRIPT = """
import torch
from torch import nn
import torch.nn.functional as F


class LeNet(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc = nn.Linear(16 * 4 * 4, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.view(x.size(0), -1))


class MNISTNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        return self.fc(x.reshape(-1, 784))


class CharRNN(nn.Module):
    def __init__(self, vocab_size, hidden_size, num_layers=1):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, hidden_size)
        self.rnn = nn.LSTM(hidden_size, hidden_size, num_layers, batch_first=True)
        self.out = nn.Linear(hidden_size, vocab_size)

    def forward(self, tokens, hidden):
        y, hidden = self.rnn(self.embed(tokens), hidden)
        return self.out(y), hidden


class Denoiser(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(1, channels)

    def forward(self, x, t):
        shift = self.time(t.float().view(-1, 1))
        return self.conv(x) + shift[:, :, None, None]


class Block(nn.Module):
    def __init__(self, dim, dropout: float, bias: bool):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 4, dropout=dropout, bias=bias, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        return x + self.attention(h, h, h)[0]


class Inner(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config["width"], config["width"])

    def forward(self, left, right):
        return self.fc(left) * right


class Outer(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.inner = Inner({"width": width})

    def forward(self, x):
        return self.inner(x[:, :6], x[:, 6:].exp())


class Impossible(nn.Module):
    def __init__(self, thing):
        super().__init__()
        self.thing = thing.some_attribute_nobody_has()

    def forward(self, x):
        return x


tower = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU())
"""


@pytest.fixture
def book(tmp_path: Path) -> CaseFinder:
    file = tmp_path / "models.py"
    file.write_text(SCRIPT, encoding="utf-8")
    original, _ = open_sides(file, file, ())
    original.load()
    names = ("LeNet", "MNISTNet", "CharRNN", "Denoiser", "Block", "Inner", "Outer", "Impossible")
    book = CaseFinder(original, (*names, "tower"), budget_s=60.0)
    book.add_values()
    book.add_expressions()
    book.add_guesses()
    return book


def test_inputs_are_found_for_all_that_is_possible(book: CaseFinder) -> None:
    assert book.missing == ("Impossible",), book.reasons
    assert "some_attribute_nobody_has" in book.reasons["Impossible"]


def test_blocks_take_their_inputs_from_the_model_around_them(book: CaseFinder) -> None:
    (case,) = book.cases["Inner"]
    assert case.construction.kind == "class"
    assert case.origin == book.cases["Outer"][0].origin


def test_a_guess_is_tried_before_it_is_believed() -> None:
    model = nn.Sequential(nn.Linear(7, 3), nn.Linear(3, 2))
    accepted = []
    for args, kwargs in guess_arguments(model):
        try:
            accepted.append(model(*args, **kwargs))
        except RuntimeError:
            continue
    assert accepted
    assert accepted[0].shape[-1] == 2
    assert all(isinstance(item, torch.Tensor) for item in accepted)


BASE = """
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return self.fc(x)
"""
NAMESAKE = """
from torch import nn
from base import Block as Inner


class Block(nn.Module):
    def __init__(self, secret):
        super().__init__()
        assert id(secret) == -1  # no argument is good enough

    def forward(self, x):
        return x + 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner(8)

    def forward(self, x):
        return self.inner(x).relu()


def make():
    return Inner(4) if Net else Block(("only", "you"))
"""


def test_a_namesake_in_another_file_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(BASE, encoding="utf-8")
    file = tmp_path / "net.py"
    file.write_text(NAMESAKE, encoding="utf-8")
    original, _ = open_sides(file, file, ())
    original.load()
    book = CaseFinder(original, ("Block", "Net"), budget_s=60.0)
    book.add_expressions()
    book.add_guesses()
    assert book.missing == ("Block",)


def test_without_time_everything_is_missing_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.write_text(SCRIPT, encoding="utf-8")
    original, _ = open_sides(file, file, ())
    original.load()
    book = CaseFinder(original, ("LeNet", "Block"), budget_s=0.0)
    book.add_guesses()
    book.add_users()
    assert book.missing == ("LeNet", "Block")
    assert book.reasons["LeNet"] == "the time to find inputs was over"
