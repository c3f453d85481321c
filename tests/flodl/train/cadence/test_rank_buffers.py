"""Buffers of ranks that train alone: the sum is what one device has after all batches."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from flodl import TrainingError
from flodl.train.cadence.rank_buffers import RankBuffers

pytestmark = pytest.mark.torch


def batches(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(6, 3, generator=generator) for _ in range(count)]


def averaged(model, inputs, counts):
    """Let ranks train consecutive parts of the batches, and commit; return the model of the first."""
    ranks = [copy.deepcopy(model) for _ in counts]
    shared = [RankBuffers(each) for each in ranks]
    rest = list(inputs)
    for rank, count in zip(ranks, counts, strict=True):
        for _ in range(count):
            rank(rest.pop(0))
    told = dict(enumerate(counts))
    terms = [each.contributions(told, place) for place, each in enumerate(shared)]
    sums = [sum(each) for each in zip(*terms, strict=True)]
    for each in shared:
        each.commit(sums)
    for rank in ranks[1:]:
        for own, other in zip(ranks[0].buffers(), rank.buffers(), strict=True):
            assert torch.equal(own, other)
    return ranks[0]


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    momentum=st.sampled_from([0.1, 0.9, None]),
    seed=st.integers(0, 100),
)
def test_batch_norm_over_ranks_equals_one_device(counts, momentum, seed):
    norm = nn.BatchNorm1d(3, momentum=momentum)
    norm(batches(1, seed + 1)[0])  # not from zero
    inputs = batches(sum(counts), seed)
    wanted = copy.deepcopy(norm)
    for each in inputs:
        wanted(each)
    found = averaged(norm, inputs, counts)
    assert found.num_batches_tracked == wanted.num_batches_tracked
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(
            found.get_buffer(name), wanted.get_buffer(name), rtol=1e-4, atol=1e-5
        )


def test_norm_that_is_called_twice_for_a_batch_equals_one_device():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            return self.norm(self.norm(x) + 1)

    inputs, wanted = batches(5), Twice()
    for each in inputs:
        wanted(each)
    found = averaged(Twice(), inputs, [3, 2])
    for name, each in found.named_buffers():
        torch.testing.assert_close(each, wanted.get_buffer(name), rtol=1e-4, atol=1e-5)


def test_frozen_norm_stays_as_it_is():
    norm = nn.BatchNorm1d(3).eval()
    found = averaged(norm, batches(5), [3, 2])
    assert all(torch.equal(a, b) for a, b in zip(found.buffers(), norm.buffers(), strict=True))


class Counting(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, dtype=kind))

    def forward(self, x):
        del x
        self.seen += torch.tensor([1, 0]).to(self.seen.dtype)


def test_counters_add_up_and_other_numbers_are_averaged_by_batches():
    assert averaged(Counting(torch.int64), batches(5), [3, 2]).seen.tolist() == [5, 0]
    found = averaged(Counting(torch.float32), batches(5), [3, 2]).seen
    torch.testing.assert_close(found, torch.tensor([(3 * 3 + 2 * 2) / 5, 0.0]))


def test_flag_that_changes_is_refused_and_one_that_stays_is_kept():
    with pytest.raises(TrainingError, match=r"changes the buffer `seen` of type torch\.bool"):
        averaged(Counting(torch.bool), batches(2), [1, 1])
    model = Counting(torch.bool)
    model.forward = lambda x: x
    assert averaged(model, batches(2), [1, 1]).seen.tolist() == [False, False]


def test_buffer_that_changes_its_shape_is_refused():
    model = nn.Module()
    model.register_buffer("seen", torch.zeros(2))
    buffers = RankBuffers(model)
    model.seen = torch.zeros(3)
    with pytest.raises(TrainingError, match="`seen` has another shape"):
        buffers.contributions({0: 1}, 0)
    model.register_buffer("other", torch.zeros(2))
    with pytest.raises(TrainingError, match="`other` came or went"):
        buffers.contributions({0: 1}, 0)
