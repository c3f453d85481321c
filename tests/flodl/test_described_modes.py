"""A flow that does not read its module's mode is described once, and holds in both modes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import FlowModule
from flodl.module import flow_module

pytestmark = pytest.mark.torch


def mode_of(module):
    return getattr(module, "train" + "ing")


class Reader(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)


class Plain(Reader):
    def flow(self, x):
        return F.relu(self.fc(x))


class ChildDecides(Reader):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def flow(self, x):
        return self.drop(self.fc(x))


class Argument(Reader):
    def flow(self, x):
        return F.dropout(self.fc(x), 0.5, self.training)


class Branch(Reader):
    def flow(self, x):
        if self.training:
            return self.fc(x)
        return x * 2


class Helper(Reader):
    def flow(self, x):
        return self.fc(x) if mode_of(self) else x * 2


class Table(Reader):
    def flow(self, x):
        return self.fc(x) if self.__dict__["training"] else x * 2


class Layer(nn.Dropout, FlowModule):
    pass


@pytest.fixture
def described(monkeypatch):
    """Return the modes in which flows are described."""
    modes = []
    plain = flow_module._described

    def noting(module, definition, *, training):
        modes.append(training)
        return plain(module, definition, training=training)

    monkeypatch.setattr(flow_module, "_described", noting)
    return modes


@pytest.mark.parametrize("kind", [Plain, ChildDecides])
def test_describe_flow_without_mode_runs_once_for_both_modes(kind, described):
    module = kind()
    assert described == [True]
    (program,) = module._flodl_programs()
    assert program.spec.training is None


@pytest.mark.parametrize("kind", [Argument, Branch, Helper, lambda: Layer(0.5)])
def test_describe_flow_that_reads_its_mode_runs_once_for_each(kind, described):
    module = kind()
    assert described == [True, False]
    assert [each.spec.training for each in module._flodl_programs()] == [True, False]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "kind", [Plain, ChildDecides, Argument, Branch, Helper, Table, lambda: Layer(0.5)]
)
def test_flow_gives_in_each_mode_what_its_text_says(kind, first):
    module = kind()
    x = torch.randn(3, 4)
    for training in (first, not first, first):
        module.train(training)
        torch.manual_seed(0)
        got = module(x)
        torch.manual_seed(0)
        plain = nn.Dropout(0.5).train(training)
        wanted = plain(x) if isinstance(module, Layer) else type(module).flow(module, x)
        assert torch.equal(got, wanted)
