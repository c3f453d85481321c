"""Summaries of parts: equal to torch's counter, on ports as on the originals, and without a trace."""

import copy
import json

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import flodl
from flodl import Flow, FlowBuilder, FlowModule

pytestmark = pytest.mark.torch


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.twice = nn.Linear(4, 4)
        self.spare = nn.Linear(9, 9)
        self.heads = nn.ModuleList(nn.Linear(4, n) for n in (2, 3))


class Plain(Layers):
    def forward(self, x):
        x = self.twice(self.twice(self.norm(self.conv(x)).mean((2, 3))))
        return {"out": [head(x) for head in self.heads], "size": x.shape[0]}


class Ported(Layers, FlowModule):
    def flow(self, x: Flow):
        x = self.twice(self.twice(self.norm(self.conv(x)).mean((2, 3))))
        return {"out": [head(x) for head in self.heads], "size": x.shape[0]}


X = torch.ones(2, 3, 5, 5)


@pytest.mark.parametrize("kind", [Plain, Ported])
def test_summary_of_parts_has_the_counts_of_torch(kind):
    model = kind()
    found = flodl.view(model).summary(X)
    with FlopCounterMode(display=False) as counter:
        Plain()(X)
    flops = {
        name.removeprefix("Plain").removeprefix("."): sum(operations.values())
        for name, operations in counter.get_flop_counts().items()
        if name != "Global"
    }
    assert {part.path: 2 * part.macs for part in found.parts if part.macs} == flops
    assert found.macs == counter.get_total_flops() // 2 > 0
    assert found.parameters == sum(each.numel() for each in model.parameters())
    by_path = {part.path: part for part in found.parts}
    assert by_path["twice"].calls == 2
    assert by_path["spare"].calls == 0
    assert by_path[""].shapes == ((2, 2), (2, 3))
    assert by_path["conv"].shapes == ((2, 4, 5, 5),)
    assert by_path["conv"].dtypes == ("float32",)


def test_summary_leaves_the_model_and_the_random_state_as_they_were():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    flodl.view(model).summary(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert not model[0]._forward_hooks
    assert all(each.grad is None for each in model.parameters())


def test_summary_with_a_depth_lists_that_many_levels():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    view = flodl.view(model)
    paths = [
        [part.path for part in view.summary(torch.ones(1, 2), depth=depth).parts]
        for depth in (0, 1, None)
    ]
    assert paths == [[""], ["", "0", "1"], ["", "0", "1", "1.0", "1.1"]]


def test_summary_of_a_graph_counts_frozen_parameters_and_is_json():
    graph = FlowBuilder.from_(nn.Linear(4, 8)).tag("hidden").through(nn.Linear(8, 2)).build()
    graph.freeze("hidden")
    found = graph.summary(torch.ones(3, 4))
    assert [part["path"] for part in json.loads(found.json())] == ["", "hidden", "linear_1"]
    assert [(part.parameters, part.trainable) for part in found.parts] == [
        (58, 18), (40, 0), (18, 18)
    ]  # fmt: skip
    assert str(found).splitlines()[1].split() == ["model", "Graph", "3x2", "float32", "58", "144"]


def test_summary_with_inputs_that_do_not_fit_raises_as_the_call_does():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        flodl.view(nn.Linear(3, 3)).summary(torch.ones(2, 4))
