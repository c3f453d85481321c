"""The arithmetic of policy Async, on ranks that exist in a list only, against brute force."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from flodl import RankShare, WindowReport
from flodl.train.cadence.rank_buffers import RankBuffers
from flodl.train.cadence.weights import CommittedWeights, Outer

pytestmark = pytest.mark.torch


def step(value, rank, window):
    """A step that depends on the weight, so that a wrong starting point is seen."""
    return value * (0.7 + 0.1 * (rank % 3)) + np.sin(window + 2.0 * rank)


def brute_force(counts):
    """The rule of the policy: at the end of w+1, theta += mean_w - delta_{r,w}; at the end, all are added."""
    ranks = len(counts[0])
    thetas, late = [1.0] * ranks, [0.0] * ranks
    for window, units in enumerate(counts):
        starts = list(thetas)
        for rank in range(ranks):
            for _ in range(units[rank]):
                thetas[rank] = step(thetas[rank], rank, window)
        deltas = [theta - start for theta, start in zip(thetas, starts, strict=True)]
        if window:
            total = sum(counts[window - 1])
            mean = sum(n * each for n, each in zip(counts[window - 1], late, strict=True)) / total
            thetas = [theta + mean - own for theta, own in zip(thetas, late, strict=True)]
        late = deltas
    mean = sum(n * each for n, each in zip(counts[-1], late, strict=True)) / sum(counts[-1])
    return [theta + mean - own for theta, own in zip(thetas, late, strict=True)]


def summed(deltas, units):
    terms = [[n * one for one in own] for own, n in zip(deltas, units, strict=True)]
    return [sum(each) for each in zip(*terms, strict=True)]


def by_team(counts, outer=None):
    """The same windows with the weights of each rank: one window is under way while the next is trained."""
    ranks = range(len(counts[0]))
    parameters = [nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in ranks]
    weights = [CommittedWeights([each], outer) for each in parameters]
    under_way = None
    for window, units in enumerate(counts):
        for rank in ranks:
            for _ in range(units[rank]):
                parameters[rank].data.fill_(step(parameters[rank].item(), rank, window))
        deltas = [each.deltas() for each in weights]
        if under_way is not None:
            for rank in ranks:
                weights[rank].commit(summed(*under_way), sum(under_way[1]), under_way[0][rank])
            assert len({each.item() for each in parameters}) == 1
        for rank in ranks:
            weights[rank].train_on(deltas[rank])
        under_way = (deltas, units)
    for rank in ranks:
        weights[rank].commit(summed(*under_way), sum(under_way[1]), under_way[0][rank])
    return [each.item() for each in parameters]


windows = st.integers(1, 4).flatmap(
    lambda ranks: st.lists(
        st.lists(st.integers(1, 4), min_size=ranks, max_size=ranks), min_size=1, max_size=6
    )
)


@settings(max_examples=60, deadline=None)
@given(counts=windows)
def test_weights_averaged_one_window_late_equal_brute_force(counts):
    found = by_team(counts)
    np.testing.assert_allclose(found, brute_force(counts), rtol=1e-9)
    assert len(set(found)) == 1  # to the bit, where nothing is under way


def test_late_mean_of_one_rank_alone_changes_nothing():
    value = 1.0
    for window in range(4):
        value = step(value, 0, window)
    assert by_team([[1]] * 4) == pytest.approx([value], rel=1e-12)


def test_outer_optimizer_one_window_late_moves_the_committed_weights():
    parameter = nn.Parameter(torch.ones(2))
    weights = CommittedWeights([parameter], Outer(0.7, 0.9))
    parameter.data += 0.5
    first = weights.deltas()
    weights.train_on(first)
    parameter.data += 0.25
    second = weights.deltas()
    weights.commit(first, 1, first)
    moved = 1.0 + 0.7 * (0.5 + 0.9 * 0.5)
    torch.testing.assert_close(parameter.data, torch.full((2,), moved))
    weights.train_on(second)
    torch.testing.assert_close(parameter.data, torch.full((2,), moved + 0.25))


def test_weights_after_undo_are_those_of_the_begin_of_the_window():
    parameter = nn.Parameter(torch.ones(2))
    weights = CommittedWeights([parameter], None)
    parameter.data += 0.5
    weights.train_on(weights.deltas())
    parameter.data.fill_(float("nan"))
    weights.undo()
    assert parameter.tolist() == [1.5, 1.5]
    weights.train_on([])
    assert parameter.tolist() == [1.0, 1.0]


def inputs(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(6, 3, generator=generator) for _ in range(count)]


def commit_buffers(shared, moves, units):
    told = dict(enumerate(units))
    terms = [each.contributions(told, place, moves[place]) for place, each in enumerate(shared)]
    for each in shared:
        each.commit([sum(parts) for parts in zip(*terms, strict=True)])


def train_parts(models, batches, units):
    for model, count in zip(models, units, strict=True):
        for _ in range(count):
            model(batches.pop(0))


@settings(max_examples=40, deadline=None)
@given(counts=windows, momentum=st.sampled_from([0.1, 0.9, None]), seed=st.integers(0, 100))
def test_batch_norm_one_window_late_equals_one_device(counts, momentum, seed):
    norm = nn.BatchNorm1d(3, momentum=momentum)
    norm(inputs(1, seed + 1)[0])  # not from zero
    batches = inputs(sum(map(sum, counts)), seed)
    wanted = copy.deepcopy(norm)
    train_parts([wanted], list(batches), [len(batches)])
    ranks = [copy.deepcopy(norm) for _ in counts[0]]
    shared = [RankBuffers(each) for each in ranks]
    under_way = None
    for units in counts:
        train_parts(ranks, batches, units)
        moves = [each.moves(copied=True) for each in shared]
        if under_way is not None:
            commit_buffers(shared, *under_way)
        for each, own, count in zip(shared, moves, units, strict=True):
            each.train_on(own, count)
        under_way = (moves, units)
    commit_buffers(shared, *under_way)
    for model in ranks:
        for name, each in model.named_buffers():
            torch.testing.assert_close(each, wanted.get_buffer(name), rtol=1e-4, atol=1e-5)
            assert torch.equal(each, ranks[0].get_buffer(name))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int64))


def test_counter_of_a_rank_that_trains_on_has_its_own_batches_and_the_committed_ones():
    model = Counting()
    buffers = RankBuffers(model)
    model.seen += torch.tensor([3, 0])
    first = buffers.moves(copied=True)
    buffers.train_on(first, 3)
    model.seen += torch.tensor([0, 2])
    second = buffers.moves(copied=True)
    added = buffers.contributions({0: 3, 1: 5}, 0, first)[0] + torch.tensor([5, 0])
    buffers.commit([added])
    assert model.seen.tolist() == [8, 0]
    buffers.train_on(second, 2)
    assert model.seen.tolist() == [8, 2]
    model.seen += 7
    buffers.undo()
    assert model.seen.tolist() == [8, 2]


def test_share_of_a_window_that_was_trained_before_the_last_one_ended_is_no_more_than_whole():
    ranks = (RankShare(rank=0, batches=10, busy=0.1), RankShare(rank=1, batches=4, busy=0.1))
    assert WindowReport(step=14, seconds=0.001, loss=0.5, per_rank=ranks).share_of_ideal == 1.0
    assert WindowReport(step=14, seconds=0.2, loss=0.5, per_rank=ranks).share_of_ideal == 0.5


def test_captured_steps_find_weights_and_buffers_at_their_addresses():
    norm = nn.BatchNorm1d(3)
    weights, buffers = CommittedWeights(list(norm.parameters()), None), RankBuffers(norm)
    before = [each.data_ptr() for each in (*norm.parameters(), *norm.buffers())]
    norm(inputs(1, 0)[0])
    deltas, moves = weights.deltas(), buffers.moves(copied=True)
    weights.train_on(deltas)
    buffers.train_on(moves, 1)
    weights.commit(deltas, 1, deltas)
    buffers.commit(buffers.contributions({0: 1}, 0, moves))
    weights.undo()
    buffers.undo()
    assert before == [each.data_ptr() for each in (*norm.parameters(), *norm.buffers())]
