"""Sizes of what a foreign function returns, unpacked and asked one by one: every call has its own answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowModule, subflow  # noqa: E402

pytestmark = pytest.mark.torch

SIZES = st.tuples(*[st.integers(1, 3)] * 3)


def foreign(x):
    """Do what no description knows: the sizes of the result follow from nothing that is known."""
    return x * 2


def asked_in_order(y, asked, *, late):
    """Ask sizes one after the other, and do something in between."""
    a, b, c = y.shape
    sizes = {"a": a, "b": b, "c": c}
    total = y.sum()
    for name in asked:
        for turn in range(sizes[name]):
            total = total + y.mean() * turn
        if late:
            total = total * a + c
    q, r, s = (total * a, total * b, total * c)
    return total + b, q + r, s


class Plain(nn.Module):
    def __init__(self, asked, late):
        super().__init__()
        self.asked, self.late = asked, late

    def forward(self, x):
        return asked_in_order(foreign(x), self.asked, late=self.late)


class Flowing(FlowModule):
    def __init__(self, asked, late):
        super().__init__()
        self.asked, self.late = asked, late

    def flow(self, x):
        return self.rest(x.through(foreign))

    @subflow
    def rest(self, y):
        return asked_in_order(y, self.asked, late=self.late)


@given(
    asked=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    late=st.booleans(),
    calls=st.lists(SIZES, min_size=2, max_size=8),
)
def test_every_call_has_its_own_answers(asked, late, calls):
    flow, plain = Flowing(asked, late), Plain(asked, late)
    for sizes in [*calls, *calls]:
        x = torch.rand(sizes)
        for left, right in zip(flow(x), plain(x), strict=True):
            assert torch.equal(left, right)


class Scan(FlowModule):
    def flow(self, x):
        y = x.through(foreign)
        _, length, _ = y.shape
        return torch.stack([y[:, each] for each in range(length)], dim=1)


def test_a_loop_over_a_length_that_only_a_run_knows():
    flow = Scan()
    for length in (7, 8, 9, 7, 8):
        x = torch.rand(2, length, 3)
        assert torch.equal(flow(x), x * 2)
    plans = next(iter(flow._flodl_plans.values()))
    assert len(plans.programs) == 1, "one plan, and a way on for each length"


class Known(FlowModule):
    def flow(self, x):
        y = x.through(torch.cumsum, 1)
        _, length, _ = y.shape
        return torch.stack([y[:, each] * each for each in range(length)], dim=1)


def test_many_lengths_of_what_torch_returned():
    flow = Known()
    for length in [*range(2, 30), *range(2, 30)]:
        x = torch.rand(2, length, 3)
        assert torch.equal(flow(x), x.cumsum(1) * torch.arange(length)[:, None])


def test_what_is_not_needed_after_the_fork_is_dropped():
    flow = Scan()
    for length in (2, 3, 3):
        flow(torch.rand(2, length, 3))
    plans = next(iter(flow._flodl_plans.values()))
    source = plans.programs[0].code.source
    assert "if length != 2:" in source
    assert "del y" in source
