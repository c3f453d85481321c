"""Means do not depend on where they are kept or when they are looked at."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flodl.train.meters import DeviceMeter, HostMeter

pytestmark = pytest.mark.torch

LOSSES = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30)


def fill(meter, losses, flush_at=()):
    told = []
    for index, loss in enumerate(losses):
        full = meter.add(torch.tensor(loss), {"square": torch.tensor(loss) ** 2})
        if full or index in flush_at:
            told.append(meter.flush())
    return told


@settings(max_examples=30)
@given(losses=LOSSES, flush_at=st.sets(st.integers(0, 30)), capacity=st.integers(1, 7))
def test_both_meters_agree(losses, flush_at, capacity):
    host, device = HostMeter(), DeviceMeter(torch.device("cpu"), capacity)
    fill(host, losses, flush_at)
    fill(device, losses, flush_at)
    saved = host.state_dict()
    other = DeviceMeter(torch.device("cpu"), capacity)
    other.load_state_dict(saved)
    wanted = sum(torch.tensor(each).item() for each in losses) / len(losses)
    for meter in (host, device, other):
        means = meter.means()
        assert means["loss"] == wanted
        assert sorted(means) == ["loss", "square"]
        assert meter.means() == {}


@given(before=st.integers(0, 5), after=st.integers(0, 5))
def test_the_first_bad_loss_is_found(before, after):
    losses = [1.0] * before + [math.nan] + [2.0] * after
    device = DeviceMeter(torch.device("cpu"), 100)
    assert fill(device, losses) == []
    assert device.flush() == after
    assert device.flush() == -1
    host = HostMeter()
    assert fill(host, losses) == [0]  # noticed in its own step


def test_numbers_of_other_kinds():
    meter = DeviceMeter(torch.device("cpu"), 4)
    meter.add(torch.tensor(0.5, dtype=torch.float64), {"count": torch.tensor(3)})
    assert meter.means() == {"loss": 0.5, "count": 3.0}
