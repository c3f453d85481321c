"""Buffers of a window: what ranks add up is what one device has after the same units."""

import pytest
import torch
from torch import nn

from flodl import TrainingError
from flodl.train.sync.unit_buffers import UnitBuffers

pytestmark = pytest.mark.torch


class Counter(nn.Module):
    """Counts its calls, and follows a mean as vector quantization does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.calls += 1
        self.total += x.sum(0)
        return x


def batches(count, features):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(6, features, generator=generator) for _ in range(count)]


def shared(model, inputs, order):
    """Run the units in any order, each from the committed buffers, and commit."""
    buffers = UnitBuffers(model)
    additions = {}
    for unit in order:
        buffers.reset(unit)
        model(inputs[unit])
        additions[unit] = buffers.additions(unit)
    buffers.commit(additions)
    return {name: each.clone() for name, each in model.named_buffers()}


def alone(model, inputs):
    for each in inputs:
        model(each)
    return {name: each.clone() for name, each in model.named_buffers()}


@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
def test_batch_norm_over_units_equals_one_device(momentum):
    inputs = batches(6, 3)
    wanted = alone(nn.BatchNorm1d(3, momentum=momentum), inputs)
    found = shared(nn.BatchNorm1d(3, momentum=momentum), inputs, range(6))
    assert found["num_batches_tracked"] == wanted["num_batches_tracked"] == 6
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_has_the_same_bits_for_any_order_of_ranks(momentum):
    inputs = batches(5, 3)
    first = shared(nn.BatchNorm1d(3, momentum=momentum), inputs, range(5))
    second = shared(nn.BatchNorm1d(3, momentum=momentum), inputs, [3, 0, 4, 2, 1])
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_one_unit_has_the_bits_of_one_device():
    inputs = batches(1, 3)
    wanted = alone(nn.BatchNorm1d(3), inputs)
    found = shared(nn.BatchNorm1d(3), inputs, [0])
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_frozen_batch_norm_stays_as_it_is():
    norm = nn.BatchNorm1d(3).eval()
    before = {name: each.clone() for name, each in norm.named_buffers()}
    found = shared(norm, batches(3, 3), range(3))
    assert all(torch.equal(found[name], before[name]) for name in before)


def test_instance_norm_over_units_equals_one_device():
    inputs = [each.reshape(2, 3, 3) for each in batches(4, 3)]
    make = lambda: nn.InstanceNorm1d(3, track_running_stats=True)  # noqa: E731
    wanted, found = alone(make(), inputs), shared(make(), inputs, range(4))
    torch.testing.assert_close(found["running_mean"], wanted["running_mean"])


def test_other_buffers_add_up_their_changes():
    inputs = batches(4, 2)
    wanted, found = alone(Counter(), inputs), shared(Counter(), inputs, [2, 3, 0, 1])
    assert found["calls"] == wanted["calls"] == 4
    torch.testing.assert_close(found["total"], wanted["total"])


def test_buffer_that_cannot_be_added_up_is_refused():
    class Flag(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros((), dtype=torch.bool))

        def forward(self, x):
            self.seen.fill_(True)
            return x

    with pytest.raises(TrainingError, match=r"buffer `seen` of type torch\.bool"):
        shared(Flag(), batches(1, 2), [0])


def test_buffer_of_another_shape_is_refused():
    class Growing(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.seen = torch.zeros(len(self.seen) + 1)
            return x

    with pytest.raises(TrainingError, match="`seen` is new or has another shape"):
        shared(Growing(), batches(1, 2), [0])
