"""`block.forward(x)` inside a flow is a step as `block(x)` is: what the block reads is read in every call."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowModule  # noqa: E402

pytestmark = pytest.mark.torch


class Block(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.mask = torch.ones(4)

    def mask_with(self, mask):
        self.mask = mask

    def flow(self, x, plans=None, *more, scale=1, **named):
        rows, _ = x.shape
        y = x.through(self.fc) * self.mask * rows * scale
        for each in (*more, *named.values()):
            y = y + each
        return y if plans is None else y + plans

    def plain(self, x):
        return self.fc(x) * self.mask * x.shape[0]


class Caller(FlowModule):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def flow(self, x):
        return self.block.forward(x).relu()


class Given(FlowModule):
    def flow(self, x, block):
        return block.forward(x * 2)


def test_what_the_block_reads_is_read_in_every_call():
    net = Caller()
    for rows, mask in ((2, 1.0), (2, 2.0), (3, 2.0), (2, 0.5)):
        net.block.mask_with(torch.full((4,), mask))
        x = torch.randn(rows, 4)
        assert torch.equal(net(x), net.block.plain(x).relu())
    net.block(x)  # with a plan of its own, too
    x = torch.randn(5, 4)
    assert torch.equal(net(x), net.block.plain(x).relu())
    (plan,) = next(iter(net._flodl_plans.values())).programs
    assert [node.kind for node in plan.spec.nodes] == ["input", "function", "method"]
    assert plan.spec.nodes[1].site.file == __file__


def test_a_block_that_is_an_argument():
    given, block = Given(), Block()
    for rows in (2, 3, 2):
        x = torch.randn(rows, 4)
        assert torch.equal(given(x, block), block.plain(x * 2))


def test_all_kinds_of_arguments():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def flow(self, x, y):
            return self.block.forward(x, y, 3, y, scale=2, other=x)

    net, x, y = Net(), torch.randn(2, 4), torch.randn(2, 4)
    wanted = net.block(x, y, 3, y, scale=2, other=x)
    assert torch.equal(net(x, y), wanted)
    assert torch.equal(net(x, y), wanted)


def test_the_forward_above_is_described_in_place():
    class Child(Block):
        def flow(self, x):
            return super().forward(x).relu()

    net = Child()
    for rows in (2, 3):
        x = torch.randn(rows, 4)
        assert torch.equal(net(x), net.plain(x).relu())
    nodes = net._flodl_plans[next(reversed(net._flodl_plans))].programs[0].spec.nodes
    assert "fc" in [node.target for node in nodes]
