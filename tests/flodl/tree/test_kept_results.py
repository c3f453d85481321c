"""Models that keep results of their last call are drawn, measured and looked into like others.

`copy.deepcopy` refuses such a tensor, because it belongs to a backward graph.
"""

import copy

import pytest
import torch
from torch import nn

import flodl
from flodl import FlowModule
from flodl.graph.observed import twin_of


class Box:
    def __init__(self):
        self.content = None


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)
        self.last, self.history, self.box = None, [], Box()

    def forward(self, x):
        h = self.a(x).relu()
        self.last = h
        return h * 2


class Flow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)
        self.last, self.history, self.box = None, [], Box()

    def flow(self, x):
        h = x.through(self.a).relu()
        self.last = h
        return h * 2


@pytest.fixture(params=[Plain, Flow])
def model(request):
    torch.manual_seed(0)
    made = request.param()
    made(torch.ones(2, 4))
    made.history.append(made.last * 2)
    made.box.content = {"result": made.last.sum()}
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(made)
    return made


def test_twin_has_the_numbers_of_kept_results_and_not_their_graph(model):
    twin = twin_of(model)
    for ours, theirs in (
        (twin.last, model.last),
        (twin.history[0], model.history[0]),
        (twin.box.content["result"], model.box.content["result"]),
    ):
        assert torch.equal(ours, theirs)
        assert ours.requires_grad
        assert ours.is_leaf
        assert ours.data_ptr() != theirs.data_ptr()
        assert not theirs.is_leaf


def test_twin_keeps_one_tensor_that_is_kept_twice_one(model):
    model.history.append(model.last)
    twin = twin_of(model)
    assert twin.history[-1] is twin.last
    assert twin.a.weight is not model.a.weight


def test_kept_results_stay_what_they_were(model):
    before = model.last
    x = torch.ones(2, 4)
    view = flodl.view(model)
    assert "Linear" in str(view.summary(x))
    assert view.svg().startswith("<svg")
    assert model.last is before
    before.sum().backward()
    assert model.a.weight.grad is not None


def test_values_and_measures_of_a_flow_that_keeps_a_result():
    model = Flow()
    x = torch.ones(2, 4)
    expected = model(x)
    view = flodl.view(model)
    _, cache = view.run_with_cache(torch.ones(3, 4))  # no plan for these yet where shapes matter
    assert torch.equal(cache["h"][:2], model.last[:2])
    assert torch.equal(model(x), expected)
    assert flodl.view(model).diff(model) is not None
