"""Optimizer states of ranks, averaged so that every rank goes on with the same one."""

import json

import pytest
import torch

from flodl.train.cadence import optimizer_means

pytestmark = pytest.mark.torch


def stepped(make, steps, gradients):
    """Return parameters and their optimizer after so many steps with gradients; `None` for no gradient."""
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in gradients]
    optimizer = make(parameters)
    for _ in range(steps):
        for each, gradient in zip(parameters, gradients, strict=True):
            each.grad = None if gradient is None else torch.full((2,), gradient)
        optimizer.step()
    return parameters, optimizer


def average(optimizers):
    layouts = [json.loads(json.dumps(optimizer_means.layout_of(each))) for each in optimizers]
    terms = [optimizer_means.contributions(each, layouts) for each in optimizers]
    sums = [sum(each) for each in zip(*terms, strict=True)]
    for each in optimizers:
        optimizer_means.commit(each, layouts, sums)


def adam(parameters):
    return torch.optim.Adam(parameters, 0.1)


def momentum(parameters):
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


@pytest.mark.parametrize("make", [adam, momentum, torch.optim.Adadelta, torch.optim.RMSprop])
def test_states_are_equal_to_their_mean_afterwards(make):
    (first, one), (second, two) = stepped(make, 5, [1.0]), stepped(make, 2, [3.0])
    before = [dict(one.state[first[0]]), dict(two.state[second[0]])]
    before = [
        {name: each.clone() for name, each in state.items() if isinstance(each, torch.Tensor)}
        for state in before
    ]
    average([one, two])
    for name, value in before[0].items():
        wanted = (value + before[1][name]) / 2
        torch.testing.assert_close(one.state[first[0]][name], wanted)
        torch.testing.assert_close(two.state[second[0]][name], wanted)


def test_state_that_only_some_ranks_have_is_the_mean_of_these():
    (first, one), (second, two) = stepped(adam, 3, [1.0, None]), stepped(adam, 2, [1.0, 2.0])
    wanted = {name: each.clone() for name, each in two.state[second[1]].items()}
    average([one, two])
    for name, each in wanted.items():
        assert torch.equal(one.state[first[1]][name], each)
    for each in first:
        each.grad = torch.ones(2)
    one.step()


def test_rank_that_made_no_step_takes_the_state_of_the_others():
    (first, one), (second, two) = stepped(adam, 0, [1.0]), stepped(adam, 4, [1.0])
    average([one, two])
    assert one.state[first[0]]["step"] == two.state[second[0]]["step"] == 4
    first[0].grad = torch.ones(2)
    one.step()


def test_forgotten_state_makes_the_step_of_a_fresh_optimizer():
    (first, one), (second, two) = stepped(adam, 3, [float("nan")]), stepped(adam, 0, [1.0])
    optimizer_means.forget(one)
    for each, optimizer in ((first[0], one), (second[0], two)):
        each.data.fill_(1.0)
        each.grad = torch.full((2,), 0.5)
        optimizer.step()
    assert torch.equal(first[0].data, second[0].data)
