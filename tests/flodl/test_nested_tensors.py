"""Nested tensors in flows: functions of torch that build them from their parts are steps."""

import weakref

import pytest
import torch
from torch import nn

from flodl import FlowModule

pytestmark = pytest.mark.torch


class FromJagged(FlowModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def flow(self, values, offsets):
        nested = torch.nested.nested_tensor_from_jagged(values, offsets)
        return self.lin(nested).values()


def test_flow_that_builds_a_nested_tensor_equals_the_plain_module():
    net = FromJagged()
    plain = type("Plain", (nn.Module,), {"forward": FromJagged.flow})()
    plain.lin = net.lin
    for ends in ([0, 2, 6], [0, 1, 6], [0, 3]):
        values = torch.randn(ends[-1], 4)
        assert torch.equal(net(values, torch.tensor(ends)), plain(values, torch.tensor(ends)))


def test_flow_proxy_can_be_referenced_weakly():
    found = []

    class Referring(FlowModule):
        def flow(self, x):
            found.append(weakref.ref(x))
            return x + 1

    Referring()(torch.ones(2))
    assert all(each() is None for each in found)
