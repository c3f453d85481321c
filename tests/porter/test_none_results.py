"""A stage may return None, and a helper of the class may ask for that."""

import json

import pytest

from fdl_cli.app import main

SOURCE = """
import torch
from torch import nn

class Nothing(nn.Module):
    def forward(self, x):
        return None

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.skip = Nothing()

    def join(self, x, y):
        if y is not None:
            x = x + y
        return x

    def forward(self, x, **options):
        return self.join(self.a(x), self.skip(x))
"""


@pytest.mark.torch
def test_none_of_a_stage_reaches_a_helper(porter):
    import torch

    made = porter.text(SOURCE)
    assert "class Net(FlowModule)" in made
    answers = []
    for text in (SOURCE, made):
        space = {"__name__": "net"}
        exec(text, space)
        torch.manual_seed(0)
        answers.append(space["Net"]()(torch.ones(2, 4)).tolist())
    assert answers[0] == answers[1]


PARTS = """
import torch
from torch import nn

class Split(nn.Module):
    def __init__(self, wide=False):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.wide = wide

    def forward(self, x):
        return (x if self.wide else None), self.a(x)

class Context(nn.Module):
    def forward(self, x):
        return 1.0 if x is None else x.mean()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.split = Split()
        self.context = Context()

    def encode(self, x):
        rest, y = self.split(x)
        return y * self.context(rest)

    def forward(self, x):
        return self.encode(x) + 1
"""


@pytest.mark.slow
@pytest.mark.torch
def test_a_part_of_a_result_may_be_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(PARTS, encoding="utf-8")
    assert main(["port", "net.py", "-o", "out.py", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    found = {item["name"]: item for item in file["classes"]}
    assert found["Net"]["status"] == "graph"
    assert found["Net"]["verify"]["status"] == "equal", found["Net"]
    assert "call(self.context, rest)" in (tmp_path / "out.py").read_text(encoding="utf-8")
