"""Flow words keep operand order and memory format: strides of a result follow its first operand."""

import itertools

import pytest
import torch
from torch import nn

from flodl import Add, Flow, FlowModule, Mean, Mul

pytestmark = pytest.mark.torch


class Turned(nn.Module):
    """Its result has the values of a copy and the strides of a transposed tensor."""

    def forward(self, x):
        return x.transpose(-1, -2).contiguous().transpose(-1, -2) * 1.5


FORMATS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "expanded": lambda x: x[:, :1].expand(-1, x.size(1), -1, -1),
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
}

FLOWS = {
    "also": (lambda s, x: x.also(s.turned), lambda s, x: x + s.turned(x)),
    "also with the main path first": (
        lambda s, x: x.also_with(main=s.turned, skip=s.act),
        lambda s, x: s.turned(x) + s.act(x),
    ),
    "also with the skip path first": (
        lambda s, x: x.also_with(skip=s.act, main=s.turned),
        lambda s, x: s.act(x) + s.turned(x),
    ),
    "sum": (lambda s, x: s.turned(x) + x, lambda s, x: s.turned(x) + x),
    "reflected": (lambda s, x: 2 - x / 3, lambda s, x: 2 - x / 3),
    "reflected tensor": (lambda s, x: s.table - x, lambda s, x: s.table - x),
    "branches": (
        lambda s, x: x.split(s.turned, s.act).merge(Add()),
        lambda s, x: s.turned(x) + s.act(x),
    ),
    "other branches": (
        lambda s, x: x.split(s.act, s.turned).merge(Add()),
        lambda s, x: s.act(x) + s.turned(x),
    ),
    "product": (
        lambda s, x: x.split(s.turned, s.act).merge(Mul()),
        lambda s, x: s.turned(x) * s.act(x),
    ),
    "mean": (
        lambda s, x: x.split(s.turned, s.act).merge(Mean()),
        lambda s, x: (s.turned(x) + s.act(x)) / 2,
    ),
    "activation": (lambda s, x: x.through(s.act), lambda s, x: s.act(x)),
    "flattened": (lambda s, x: x.through(s.flat), lambda s, x: s.flat(x)),
}


class Members:
    def prepare(self):
        self.turned, self.act, self.flat = Turned(), nn.SiLU(), nn.Flatten(2, -1)
        self.table = torch.ones(3, 4).t().contiguous().t()


@pytest.mark.parametrize(("flow", "layout"), list(itertools.product(FLOWS, FORMATS)))
def test_flow_word_keeps_values_and_strides(flow, layout):
    described, plain = FLOWS[flow]

    class Net(Members, FlowModule):
        def flow(self, x: Flow) -> Flow:
            return described(self, x)

    class Plain(Members, nn.Module):
        def forward(self, x):
            return plain(self, x)

    net, twin = Net(), Plain()
    net.prepare(), twin.prepare()
    torch.manual_seed(0)
    for _ in range(2):  # the first call traces, the second runs the plan
        x = FORMATS[layout](torch.randn(2, 5, 3, 4))
        got, expected = net(x), twin(x)
        assert torch.equal(got, expected)
        assert got.stride() == expected.stride()
        assert got.data_ptr() == x.data_ptr() or expected.data_ptr() != x.data_ptr()
        assert (got._base is None) == (expected._base is None)
