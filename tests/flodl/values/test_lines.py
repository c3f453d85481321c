"""Lines of values: where the author's forward calls the module whose output it is."""

import inspect

import pytest
import torch
from torch import nn

import flodl
from flodl import Flow, FlowModule

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        x = self.lin(x)  # inner
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)  # loop
        return self.blocks[0].lin(x)  # again


class Around(FlowModule):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.norm = nn.LayerNorm(4)
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.norm)  # norm
        x = x.through(self.mlp)
        return x.through(self.block)  # block


def number(kind, text):
    lines, start = inspect.getsourcelines(kind)
    (at,) = [start + index for index, line in enumerate(lines) if text in line]
    return f"{__file__}:{at}"


def lines(model, *inputs):
    return {each.name: each.line for each in flodl.view(model).names("**", *inputs)}


def test_lines_of_a_plain_network_are_those_of_the_last_call():
    found = lines(Net(), torch.ones(2, 4))
    assert found == {
        "blocks.0": number(Net, "# loop"),
        "blocks.0.lin": number(Net, "# again"),
        "blocks.0.mlp": number(Block, "self.mlp("),
        "blocks.0.mlp.0": number(Block, "self.mlp("),
        "blocks.0.mlp.1": number(Block, "self.mlp("),
        "blocks.1": number(Net, "# loop"),
        "blocks.1.lin": number(Block, "# inner"),
        "blocks.1.mlp": number(Block, "self.mlp("),
        "blocks.1.mlp.0": number(Block, "self.mlp("),
        "blocks.1.mlp.1": number(Block, "self.mlp("),
        "unused": "",
    }


def test_lines_without_a_call_or_outside_of_the_model_are_empty():
    assert set(lines(Net()).values()) == {""}
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    assert lines(model, torch.ones(2, 4)) == {"0": "", "1": ""}


def test_lines_in_a_flow_come_from_its_description_and_below_it_from_the_stack():
    found = lines(Around(), torch.ones(2, 4))
    assert found["norm"] == number(Around, "# norm")
    assert found["block"] == number(Around, "# block")
    assert found["block.lin"] == number(Block, "# inner")
    assert found["mlp.0"] == "", "the flow calls it from generated code"
    assert found["x[0]"] == "", "an input has no line"
    assert not any("<" in line for line in found.values())


def test_summary_of_values_has_the_same_lines():
    for model in (Net(), Around()):
        x = torch.ones(2, 4)
        values = flodl.view(model).summary(x).values
        assert {each.name: each.line for each in values} == lines(model, x)
