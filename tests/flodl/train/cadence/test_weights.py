"""Weights of ranks that train alone: their mean, the outer optimizer, and the drift."""

import math

import pytest
import torch

from flodl.train.cadence.weights import CommittedWeights, Outer, norm_of

pytestmark = pytest.mark.torch


def ranks_of(values, outer=None, start=1.0, kind=torch.float32):
    """Return ranks that moved from a weight to others, and what commits them."""
    parameters = [torch.nn.Parameter(torch.full((2,), start, dtype=kind)) for _ in values]
    weights = [CommittedWeights([each], outer) for each in parameters]
    for each, value in zip(parameters, values, strict=True):
        each.data.fill_(value)
    return parameters, weights


def commit(weights, units):
    deltas = [
        each.deltas() if count else each.zeros()
        for each, count in zip(weights, units, strict=True)
    ]
    terms = [[count * one for one in each] for each, count in zip(deltas, units, strict=True)]
    sums = [sum(each) for each in zip(*terms, strict=True)]
    for each, own, count in zip(weights, deltas, units, strict=True):
        each.commit(sums, sum(units), own if count else [])


def test_weights_move_by_the_mean_of_the_ranks_by_their_units():
    parameters, weights = ranks_of([1.6, 1.2, 9.0])
    commit(weights, [3, 1, 0])
    for each in parameters:
        torch.testing.assert_close(each.data, torch.full((2,), 1.5))
    assert weights[0].drift == pytest.approx(0.1 / 1.5, rel=1e-5)
    assert weights[2].drift == 0.0


def test_window_without_units_leaves_the_weights():
    parameters, weights = ranks_of([1.6, math.nan])
    commit(weights, [0, 0])
    assert [each.tolist() for each in parameters] == [[1.0, 1.0], [1.0, 1.0]]


def test_outer_optimizer_is_sgd_with_nesterov_momentum_on_the_mean():
    parameters, weights = ranks_of([1.0, 1.0], Outer(0.7, 0.9))
    wanted = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([wanted], 0.7, momentum=0.9, nesterov=True)
    for moves in ([0.5, 0.1], [-0.2, 0.3], [0.0, 0.4]):
        for each, move in zip(parameters, moves, strict=True):
            each.data.add_(move)
        wanted.grad = torch.full((2,), -sum(moves) / 2)
        optimizer.step()
        commit(weights, [2, 2])
        torch.testing.assert_close(parameters[0].data, wanted.data)
        assert torch.equal(parameters[0].data, parameters[1].data)


def test_outer_moves_continue_from_a_saved_state():
    _, first = ranks_of([1.5], Outer(0.7, 0.9))
    commit(first, [1])
    parameters, second = ranks_of([1.0], Outer(0.7, 0.9))
    second[0].load_state_dict(first[0].state_dict())
    parameters[0].data.fill_(1.5)
    commit(second, [1])
    move = 0.9 * 0.5 + 0.5
    torch.testing.assert_close(
        parameters[0].data, torch.full((2,), 1.0 + 0.7 * (0.5 + 0.9 * move))
    )


def test_half_precision_weights_are_averaged_in_single_precision():
    parameters, weights = ranks_of([1.0078125, 1.0], kind=torch.bfloat16)
    assert weights[0].deltas()[0].dtype == torch.float32
    commit(weights, [2, 2])
    assert parameters[0].dtype == torch.bfloat16
    assert torch.equal(parameters[0], parameters[1])


def test_tied_parameters_are_averaged_once():
    parameter = torch.nn.Parameter(torch.ones(2))
    assert len(CommittedWeights([parameter, parameter], None).tensors()) == 1


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_norm_of_numbers_that_are_not_finite_is_nan(value):
    assert math.isnan(norm_of([torch.ones(3), torch.tensor([1.0, value])]))
    assert norm_of([torch.tensor([3.0]), torch.tensor([4.0])]) == 5.0
    assert norm_of([]) == 0.0
