"""What a flow reads besides its inputs may change between calls: the plan then serves no more."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from flodl import FlowModule

pytestmark = pytest.mark.torch

STEP = 0
SWITCHES = {"deep": False}


def factor():
    return STEP + 1.0


def scaled(x):
    return x * (STEP + 1.0)


class Global(FlowModule):
    def flow(self, x):
        return x * 2 if STEP else x


class ThroughFunction(FlowModule):
    def flow(self, x):
        return scaled(x) * factor()


class GlobalDict(FlowModule):
    def flow(self, x):
        return x * 3 if SWITCHES["deep"] else x


class Configured(FlowModule):
    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(model=SimpleNamespace(scale=2.0))
        self.factors = [1.0, 2.0]
        self.layers = nn.ModuleList([nn.Tanh()])
        self.norm = nn.BatchNorm1d(2)

    def flow(self, x):
        x = x * self.config.model.scale
        for each in self.factors:
            x = x * each
        for layer in self.layers:
            x = x.through(layer)
        return x if self.norm.training else x + 1


class Counting(FlowModule):
    def __init__(self):
        super().__init__()
        self.count = 0

    def flow(self, x):
        self.count += 1
        return x * self.count


X = torch.tensor([[0.5, -1.0]])


@pytest.mark.parametrize(("kind", "expected"), [(Global, X * 2), (ThroughFunction, X * 25)])
def test_a_global_that_changes(kind, expected, monkeypatch):
    module = kind()
    for _ in range(2):
        assert torch.equal(module(X), X)
    monkeypatch.setitem(globals(), "STEP", 4)
    for _ in range(2):
        assert torch.equal(module(X), expected)
    monkeypatch.setitem(globals(), "STEP", 0)
    assert torch.equal(module(X), X)


def test_what_is_inside_a_global_changes(monkeypatch):
    module = GlobalDict()
    assert torch.equal(module(X), X)
    monkeypatch.setitem(SWITCHES, "deep", True)
    assert torch.equal(module(X), X * 3)


def test_what_is_inside_an_attribute_changes():
    module = Configured()
    assert torch.equal(module(X), torch.tanh(X * 4))
    module.config.model.scale = 3.0
    assert torch.equal(module(X), torch.tanh(X * 6))
    module.factors.append(2.0)
    assert torch.equal(module(X), torch.tanh(X * 12))
    module.layers.append(nn.ReLU())
    assert torch.equal(module(X), torch.tanh(X * 12).relu())
    module.norm.eval()
    assert torch.equal(module(X), torch.tanh(X * 12).relu() + 1)


def test_a_copy_asks_its_own_attributes():
    import copy

    module = Configured()
    module(X)
    twin = copy.deepcopy(module)
    twin.config.model.scale = 3.0
    assert torch.equal(twin(X), torch.tanh(X * 6))
    assert torch.equal(module(X), torch.tanh(X * 4))


def test_what_a_flow_counts_itself_is_no_reason_to_record_again():
    module = Counting()
    for n in range(1, 6):
        assert torch.equal(module(X), X * n)
    assert len(module._flodl_programs()) == 1
