"""A step may return a value in one call and `None` in the next: each call answers `is None` for itself."""

from __future__ import annotations

import contextlib
import itertools
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from flodl import FlowModule, call

pytestmark = pytest.mark.torch


def big(x):
    """Return nothing for what has more than two rows."""
    return None if x.size(0) > 2 else x * 3


class Pair(nn.Module):
    def forward(self, x):
        return x + 1, big(x)


class Nested(nn.Module):
    def forward(self, x):
        return x + 1, (big(x), x)


class Twin(nn.Module):
    """The same code as a plain module and as a flow."""

    kind = ""

    def __init__(self):
        super().__init__()
        self.pair = Pair()
        self.nested = Nested()
        self.last = nn.Linear(4, 4)

    def run(self, x, step):  # noqa: C901 - one way per case
        if self.kind == "variable":
            mask = step(big, x)
            return self.last_of(x, step) * mask if mask is not None else x
        if self.kind == "assigned again":
            mask = step(big, x)
            mask = step(torch.neg, mask) if mask is not None else step(torch.exp, x)
            return self.last_of(mask, step)
        if self.kind == "unpacked":
            y, mask = step(self.pair, x)
            return y * mask if mask is not None else y
        if self.kind == "item":
            both = step(self.pair, x)
            return both[0] * both[1] if both[1] is not None else both[0]
        if self.kind == "unpacked deeper":
            y, (mask, z) = step(self.nested, x)
            return y * mask if mask is not None else y + z
        if self.kind == "walrus":
            return x if (mask := step(big, x)) is None else x + mask
        if self.kind == "twice":
            first, second = step(big, x), step(big, x[1:])
            total = x.sum()
            if first is not None:
                total = total + first.sum()
            if second is not None:
                total = total + second.sum()
            return total
        if self.kind == "or":
            return x + (step(big, x) if step(big, x) is not None else 1)
        if self.kind == "returned":
            return step(big, x)
        assert self.kind == "handed on"
        return self.helper(step(big, x), x)

    def last_of(self, x, step):
        return step(self.last, x)

    def helper(self, mask, x):
        return x if mask is None else x * mask


class Plain(Twin):
    def forward(self, x):
        return self.run(x, lambda function, *args: function(*args))


class Ported(FlowModule):
    def __init__(self, kind):
        super().__init__()
        self.twin = Plain()
        self.twin.kind = kind

    def flow(self, x):
        return Twin.run(self.twin, x, call)


KINDS = (
    "variable",
    "assigned again",
    "unpacked",
    "item",
    "unpacked deeper",
    "walrus",
    "twice",
    "or",
)


def outcome(model, x):
    model.zero_grad()
    y = model(x)
    if y is None:
        return None
    if y.requires_grad:
        y.sum().backward()
    return y.tolist(), [
        p.grad.tolist() if p.grad is not None else None for p in model.parameters()
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rows", [(3, 2, 4, 1, 3, 2), (2, 3, 1, 4, 2, 3)], ids=["none first", "value first"]
)
def test_each_call_goes_its_own_way(kind, rows):
    torch.manual_seed(0)
    ported = Ported(kind)
    plain = ported.twin
    for n in rows:
        x = torch.rand(n, 4)
        expected = outcome(plain, x)
        assert outcome(ported, x) == expected


@pytest.mark.parametrize("kind", ["returned", "handed on"])
def test_what_was_none_at_first_is_there_later(kind):
    ported = Ported(kind)
    for n in (3, 2, 3, 1):
        x = torch.rand(n, 4)
        assert outcome(ported, x) == outcome(ported.twin, x)


class Reading(FlowModule):
    def flow(self, batch):
        return batch.x if batch.mask is None else batch.x * batch.mask


def test_attributes_of_inputs_are_asked():
    net = Reading()
    for mask in (None, torch.zeros(2), torch.full((2,), 3.0), None):
        expected = 1.0 if mask is None else mask[0].item()
        assert net(SimpleNamespace(x=torch.ones(2), mask=mask)).tolist() == [expected, expected]


def test_values_that_are_only_there_are_no_ways_of_their_own(monkeypatch):
    # Modules of Python have no guards; a counter anywhere else is a step or an error.
    monkeypatch.setattr(sys, "traces", itertools.count(), raising=False)

    class Counting(FlowModule):
        def flow(self, x):
            next(sys.traces)
            mask = x.through(big)
            return x if mask is None else x * mask

    net = Counting()
    for n in itertools.islice(itertools.cycle((3, 2, 1)), 12):
        net(torch.rand(n, 4))
    assert next(sys.traces) == 2


def test_a_result_that_nobody_reads_is_not_asked():
    class Unread(FlowModule):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2)

        def flow(self, x):
            y, weights = x.through(self.attention, x, x, need_weights=False)  # noqa: RUF059
            call(print, end="")
            return y

    net = Unread()
    net(torch.rand(3, 2, 4))
    assert " is " not in net.code.partition("def forward")[2]


class Attending(FlowModule):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2)

    def flow(self, x):
        y, weights = x.through(self.attention, x, x, need_weights=False)
        return y if weights is None else y * weights.mean()


def test_other_tools_take_what_asks():
    torch.manual_seed(0)

    net, x = Attending().eval(), torch.rand(3, 2, 4)
    expected = net(x)
    assert "weights is not None" in net.code
    assert torch.equal(torch.export.export(net, (x,)).module()(x), expected)
    # A proxy of torch.fx is never `None`: the trace has the other branch, as that of a plain module has.
    assert [node.name for node in torch.fx.symbolic_trace(net).graph.nodes][-3:-1] == [
        "mean",
        "mul",
    ]


def test_inside_a_block_that_a_step_has_made_the_first_answer_stays():
    @contextlib.contextmanager
    def entered():
        yield 1

    class Inside(FlowModule):
        def flow(self, x):
            with call(entered):
                y = x.through(big)
                return x if y is None else x + y

    assert Inside()(torch.ones(3, 4)).sum().item() == 12


@pytest.mark.slow
def test_it_compiles_as_one_graph():
    net, x = Attending().eval(), torch.rand(3, 2, 4)
    expected = net(x)
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), expected)
