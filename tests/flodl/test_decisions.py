"""A flow that goes different ways for different values does what a plain forward does, in every call."""

import itertools
import random
import sys
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowError, FlowModule, call, view  # noqa: E402

pytestmark = pytest.mark.torch

item = torch.Tensor.item


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.outs = []
        self.total = 0

    def forward(self, x):
        y = self.a(x)
        z = y * 2
        with torch.no_grad():
            q = self.b(y) if y.mean() > 0 else -y
        k = int(y.abs().sum())
        w = z
        for turn in range(k % 4):
            w = w + self.b(w) * turn
            if w.sum().item() > 5:
                break
        self.outs.append(w.detach())
        self.total += k
        if self.total > 10:
            w = w - 1
        if len(self.outs) > 2:
            self.outs.pop(0)
        while w.abs().sum() > 4:
            w = w * 0.5
        drawn = random.random()
        if drawn < 0.5:
            w = w + drawn
        positive = w[w > 0]
        return w + q, k, positive.numel()


class Deciding(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.outs = []
        self.total = 0

    def flow(self, x):
        y = x.through(self.a)
        z = y * 2
        with torch.no_grad():
            q = y.through(self.b) if (y.mean() > 0).through(bool) else -y
        k = y.abs().sum().through(int)
        w = z
        for turn in range(k % 4):
            w = w + w.through(self.b) * turn
            if w.sum().through(item) > 5:
                break
        self.outs.append(w.detach())
        self.total += k
        if self.total > 10:
            w = w - 1
        if len(self.outs) > 2:
            self.outs.pop(0)
        while (w.abs().sum() > 4).through(bool):
            w = w * 0.5
        drawn = call(random.random)
        if drawn < 0.5:
            w = w + drawn
        positive = w[w > 0]
        return w + q, k, positive.numel()


def make():
    torch.manual_seed(0)
    plain = Plain()
    torch.manual_seed(0)
    return plain, Deciding()


def run(module, x, seed):
    random.seed(seed)
    torch.manual_seed(seed)
    module.zero_grad()
    out, *rest = module(x)
    if out.requires_grad:
        out.sum().backward()
    return out, [each.grad for each in module.parameters()], rest, module.total


def same(one, two):
    assert torch.equal(one[0], two[0])
    assert one[2:] == two[2:]
    for left, right in zip(one[1], two[1], strict=True):
        assert left is right or torch.equal(left, right)


def test_every_way_is_taken_as_it_was():
    plain, flow = make()
    for turn in range(40):
        x = torch.randn(4, 3) * (1 + turn % 3)
        plain.train(turn % 5 > 0)
        flow.train(turn % 5 > 0)
        same(run(plain, x, turn), run(flow, x, turn))
        assert all(map(torch.equal, plain.outs, flow.outs))


def test_ways_that_were_seen_are_not_recorded_again(monkeypatch):
    _, flow = make()
    x = torch.randn(4, 3)
    flow.outs = []
    for _ in range(3):
        run(flow, x, 3)
        flow.outs.clear()
        flow.total = 0
    from flodl.module import flow_module as module

    monkeypatch.setattr(module, "_record", None)
    run(flow, x, 3)


def test_tags_and_profiles_follow_the_way():
    class Tagged(FlowModule):
        def flow(self, x):
            x = (x + 1).tag("early")
            if (x.sum() > 0).through(bool):
                return (x * 2).tag("late")
            return (x * 3).tag("other")

    tagged = Tagged()
    for value, name, expected in ((1.0, "late", 4.0), (-9.0, "other", -24.0)) * 2:
        assert tagged(torch.full((1,), value)).item() == expected
        assert view(tagged).tagged(name).item() == expected
        assert view(tagged).tagged("early").item() == value + 1
    view(tagged).enable_profiling()
    assert tagged(torch.full((1,), -9.0)).item() == -24


def test_random_draws_happen_once_where_the_way_forks():
    class Draws(FlowModule):
        def flow(self, x):
            y = x + torch.rand(1)
            if (y > 0.5).through(bool):
                return y + torch.rand(1)
            return y

    draws = Draws()
    for seed in range(12):
        torch.manual_seed(seed)
        first = torch.rand(1)
        expected = first + torch.rand(1) if first > 0.5 else first
        torch.manual_seed(seed)
        assert torch.equal(draws(torch.zeros(1)), expected)


def test_a_flow_that_does_not_repeat_is_told_so(monkeypatch):
    # Modules of Python have no guards; a counter anywhere else is a step or an error.
    monkeypatch.setattr(sys, "turns", itertools.count(1), raising=False)

    class Odd(FlowModule):
        def flow(self, x):
            y = x + next(sys.turns)
            return y + 1 if (y.sum() > 3).through(bool) else y

    odd = Odd()
    odd(torch.zeros(1))
    with pytest.raises(FlowError, match="something else when it was recorded again"):
        odd(torch.full((1,), 9.0))


def test_many_shapes_do_not_make_a_plan_each():
    class Asks(FlowModule):
        def flow(self, x):
            y = x.float()
            return y.sum(1) if y.dim() > 1 and y.size(1) > 3 else y * 2

    asks = Asks()
    for length in (*range(1, 40), *range(1, 40)):
        x = torch.ones(2, length)
        assert torch.equal(asks(x), x.sum(1) if length > 3 else x * 2)
    (plans,) = asks._flodl_plans.values()
    assert len(plans.programs) + len(plans._paths) < 20


def test_what_is_unpacked_or_deleted_before_a_fork():
    class Keeps(FlowModule):
        def __init__(self):
            super().__init__()
            self.seen = []
            self.table = {}

        def flow(self, x):
            rows, columns = x.shape
            low, high = x.aminmax(dim=1)
            if (rows, columns) not in self.table:
                self.table[(rows, columns)] = torch.ones(columns)
            self.seen.append(high.max().through(item))
            if len(self.seen) > 2:
                del self.seen[0]
            if (low.sum() > 0).through(bool):
                return x * self.table[(rows, columns)] + sum(self.seen)
            return x - columns

    keeps = Keeps()
    seen = []
    for turn in range(12):
        x = torch.randn(2, 2 + turn % 3) + turn % 2
        seen = [*seen, x.max().item()][-2:]
        low = x.amin(1).sum()
        expected = x + sum(seen) if low > 0 else x - x.size(1)
        assert torch.equal(keeps(x), expected)
        assert keeps.seen == seen


class Pictures:
    """An argument that is no tensor: nothing ties a plan to what it holds."""

    def __init__(self, sizes):
        self.tensors, self.sizes = torch.ones(len(sizes), 3), sizes


class Cut(nn.Module):
    def forward(self, pictures):
        return [each * 2 for each in pictures.tensors]


@pytest.mark.parametrize("ask", [len, list], ids=["len", "list"])
def test_how_many_parts_an_object_holds_is_asked_in_every_call(ask):
    def forward(self, pictures):
        parts = self.cut(pictures)
        ask(parts)
        return [self.a(part) for part in parts], len(parts)

    def build(self):
        super(type(self), self).__init__()
        torch.manual_seed(0)
        self.a, self.cut = nn.Linear(3, 3), Cut()

    plain = type("PlainCut", (nn.Module,), {"__init__": build, "forward": forward})()
    flow = type("FlowCut", (FlowModule,), {"__init__": build, "flow": forward})()
    for count in (2, 2, 3, 1, 3, 0):
        (ours, number), (theirs, expected) = (
            flow(Pictures([1] * count)),
            plain(Pictures([1] * count)),
        )
        assert number == expected == count
        assert [each.tolist() for each in ours] == [each.tolist() for each in theirs]


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        return {"parts": tuple(layer(x) for layer in self.layers)}


class Joined(FlowModule):
    def __init__(self):
        super().__init__()
        self.stack = Stack()

    def flow(self, x):
        return torch.cat([part * 2 for part in x.through(self.stack)["parts"]])


def test_list_of_a_module_that_becomes_shorter_is_traced_again():
    joined, x = Joined(), torch.ones(2, 4)
    for count in (3, 2, 3, 1):
        joined.stack.layers = nn.ModuleList([joined.stack.layers[0]] * count)
        for _ in range(2):
            assert joined(x).shape == (2 * count, 4)


class Compared(FlowModule):
    def flow(self, x, n):
        return x * 2 if n > 2 else x + 1


def test_plan_of_compared_tensor_argument_keeps_no_input_and_adds_no_step():
    module = Compared()
    x, n = torch.randn(3), torch.tensor(3.0)
    kept = [weakref.ref(x), weakref.ref(n)]
    assert torch.equal(module(x, n), x * 2)
    assert "dim" not in module.code
    assert [node.name for node in module.spec.nodes if node.kind != "input"][:2] == [
        "gt_1",
        "bool_1",
    ]
    del x, n
    assert [ref() for ref in kept] == [None, None]
    x, n = torch.randn(2, 3), torch.tensor(1.0)
    assert torch.equal(module(x, n), x + 1)
