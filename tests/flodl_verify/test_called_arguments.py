"""Arguments of calls in a project: literals, settings by attribute and key, and sums of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sandbox.isolated_import import open_sides
from flodl_verify.sources.called_arguments import called_arguments

pytestmark = pytest.mark.torch

PARAMETERS = ("count", "width", "layers", "act")
PROGRAM = """
import argparse
import torch.nn as nn
from models import Net

p = argparse.ArgumentParser()
p.add_argument("--count", type=int, default=3)
p.add_argument("--width", type=int, default=16)
p.add_argument("--data", default=None)
"""


def known(folder: Path, text: str, program: str = PROGRAM) -> list[dict[str, object]]:
    (folder / "run.py").write_text(program + text, encoding="utf-8")
    return called_arguments(folder / "models.py", (folder,), "Net", PARAMETERS)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("Net(5, 'a', layers=[1, 2])", {"count": 5, "width": "a", "layers": [1, 2]}),
        ("models.Net(args.count, args.width * 2 + 1)", {"count": 3, "width": 33}),
        ("Net(args['count'], act=nn.ReLU)", {"count": 3, "act": nn.ReLU}),
        ("Net(self.args.count, -1)", {"count": 3, "width": -1}),
        ("Net(WIDTH, width=(WIDTH, 4))", {"count": 64, "width": (64, 4)}),
        ("Net(args.count, len(data))", {"count": 3}),
        ("Net(args.count, args.data)", {"count": 3}),
        ("Net(args.count / 0, 7)", {"width": 7}),
        ("Net(4, *rest)", {"count": 4}),
    ],
)
def test_arguments_are_known_from_literals_and_settings(tmp_path, call, wanted):
    assert known(tmp_path, f"WIDTH = 64\ndef main(args):\n    net = {call}\n") == [wanted]


@pytest.mark.parametrize(
    "text",
    [
        "Net()",
        "Net(a, b, 3)",
        "Net(len(x))",
        "Net(**options)",
        "class Net(Base):\n    pass",
        "Net(1",
    ],
)
def test_call_of_which_too_little_is_known_is_none(tmp_path, text):
    assert known(tmp_path, text + "\n") == []


def test_name_that_is_assigned_twice_or_inside_is_that_of_the_call(tmp_path):
    assert known(tmp_path, "n = 1\nn = 2\nNet(n, 5)\n") == [{"width": 5}]
    text = "n = 1\ndef main():\n    n = 9\n    return Net(n, 5)\n"
    assert known(tmp_path, text) == [{"count": 9, "width": 5}]


def test_calls_of_which_most_is_known_come_first(tmp_path):
    found = known(tmp_path, "Net(a, 5)\nNet(1, 2)\nNet(1, 2)\n")
    assert found == [{"count": 1, "width": 2}, {"width": 5}]


MODELS = """
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, count, width, factor):
        super().__init__()
        assert count == 3 and factor == 4, "as its program calls it"
        self.parts = nn.ModuleList(
            nn.Conv1d(1, width, 9, stride=factor, padding=4) for _ in range(count)
        )

    def forward(self, x):
        return [part(x) for part in self.parts]
"""


def test_model_is_made_as_its_program_calls_it(tmp_path):
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    program = (
        PROGRAM + "args = p.parse_args()\nopen(args.data)\nCritic(args.count, args.width, 4)\n"
    )
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Critic",), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        torch.manual_seed(0)
        model = book.cases["Critic"][0].construction.build(original)
    assert model.parts[0].out_channels == 16


LARGE = """
from torch import nn


class Large(nn.Module):
    def __init__(self, classes, hidden=2048, depth=4):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(hidden, hidden) for _ in range(depth)))
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.layers(x))
"""


def test_defaults_that_a_call_leaves_out_are_made_smaller(tmp_path):
    file = tmp_path / "models.py"
    file.write_text(LARGE, encoding="utf-8")
    (tmp_path / "train.py").write_text(
        "from models import Large\nnet = Large(7)\n", encoding="utf-8"
    )
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Large",), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        model = book.cases["Large"][0].construction.build(original)
    assert (model.head.in_features, model.head.out_features) == (128, 7)
