"""A flow that changes attributes of its object does so at every call, like a plain forward."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowError, FlowModule  # noqa: E402

pytestmark = pytest.mark.torch


class Body:
    """What both twins do; `run` is the forward of one and the flow of the other."""

    def prepare(self):
        self.lin = nn.Linear(3, 3)
        self.count = 0
        self.rate = 0.5
        self.mode = "first"
        self.memory = None
        self.flag = False
        self.register_buffer("ema", torch.zeros(3))

    def run(self, x):
        self.count += 1
        y = self.lin(x)
        if self.memory is None:
            self.memory = torch.zeros_like(y)
        if not self.flag:
            self.flag = True
            y = y * 2
        if self.mode == "first":
            y = y + 1
        self.mode = "later"
        before = self.memory
        self.memory = (self.memory + y).detach()
        self.ema.mul_(0.9).add_(y.detach().mean(0))
        self.rate = self.rate * 0.5
        if self.count % 3 == 0:
            y = y - self.memory
        if hasattr(self, "late"):
            y = y + self.late
        self.late = y.detach()
        self.seen = y.shape
        return y * self.rate + before + self.count, self.count


class Plain(Body, nn.Module):
    def __init__(self):
        super().__init__()
        self.prepare()

    def forward(self, x):
        return self.run(x)


class Own(FlowModule):
    """The body is in the class itself, where its attributes can be found."""

    prepare = Body.prepare
    run = Body.run

    def __init__(self):
        super().__init__()
        self.prepare()

    def flow(self, x):
        return self.run(x)


def state(module):
    return module.memory, module.ema, module.late, module.count, module.rate, module.mode


def same(one, two):
    assert [torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
            for a, b in zip(one, two, strict=True)] == [True] * len(one)  # fmt: skip


def test_state_follows_a_plain_module():
    torch.manual_seed(0)
    plain = Plain()
    torch.manual_seed(0)
    flow = Own()
    for turn in range(9):
        x = torch.randn(2, 3)
        plain.train(turn % 4 < 2)
        flow.train(turn % 4 < 2)
        same(plain(x), flow(x))
        same(state(plain), state(flow))
        if turn == 5:
            plain.memory = flow.memory = None
            plain.count = flow.count = 7
    assert len(flow._flodl_plans[next(iter(flow._flodl_plans))].programs) < 9


def test_copies_have_a_state_of_their_own():
    flow = Own()
    with torch.no_grad():
        flow(torch.ones(2, 3))
        twin = copy.deepcopy(flow)
        flow(torch.ones(2, 3))
        assert (flow.count, twin.count) == (2, 1)
        twin(torch.ones(2, 3))
    same(state(flow), state(twin))


def test_gradients_reach_what_was_kept():
    class Kept(FlowModule):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)

        def flow(self, x):
            self.penalty = x.through(self.lin).pow(2).sum()
            return x.through(self.lin)

    kept = Kept()
    for _ in range(2):
        kept.zero_grad()
        kept(torch.ones(1, 2))
        kept.penalty.backward()
        assert kept.lin.weight.grad.abs().sum() > 0


def test_a_shared_object_is_refused():
    class Shares(FlowModule):
        def flow(self, x):
            self.thing = object()
            return x

    with pytest.raises(FlowError, match="the same object in every call"):
        Shares()(torch.ones(1))


def test_numbers_are_guarded_before_the_call():
    class Scaled(FlowModule):
        def flow(self, x, beta):
            return x * beta if beta < 0.5 else x + beta

    scaled = Scaled()
    for beta in (0.1, 0.2, 0.7, 0.9, 0.3):
        expected = torch.ones(2) * beta if beta < 0.5 else torch.ones(2) + beta
        assert torch.equal(scaled(torch.ones(2), beta), expected)
        assert torch.equal(scaled(torch.ones(3), beta), expected[:1].expand(3))
    assert scaled.code.count("def forward") == 2


def test_a_flow_that_fills_a_container_is_not_run_without_values():
    class Fills(FlowModule):
        def __init__(self):
            super().__init__()
            self.seen = []
            self.table = {}

        def flow(self, x):
            self.seen.append(x)
            self.table["last"] = x
            return x + len(self.seen)

    fills = Fills()
    assert fills.seen == []
    assert fills.table == {}
    assert [fills(torch.zeros(1)).item() for _ in range(3)] == [1, 2, 3]
    assert all(type(each) is torch.Tensor for each in (*fills.seen, *fills.table.values()))
