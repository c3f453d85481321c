"""Initialisers against `torch.nn.init` with the same seed, bit for bit."""

import math

import pytest
import torch
from torch import nn

from flodl.nn import init

pytestmark = pytest.mark.torch

SHAPE = (6, 4)
TWINS = {
    "kaiming_uniform": (
        lambda: init.kaiming_uniform(SHAPE, 4, 0.1),
        lambda t: nn.init.kaiming_uniform_(t, a=0.1),
    ),
    "kaiming_normal": (
        lambda: init.kaiming_normal(SHAPE, 4, 0.1),
        lambda t: nn.init.kaiming_normal_(t, a=0.1),
    ),
    "xavier_uniform": (lambda: init.xavier_uniform(SHAPE, 4, 6), nn.init.xavier_uniform_),
    "xavier_normal": (lambda: init.xavier_normal(SHAPE, 4, 6), nn.init.xavier_normal_),
    "uniform": (lambda: init.uniform(SHAPE, -1, 2), lambda t: nn.init.uniform_(t, -1, 2)),
    "normal": (lambda: init.normal(SHAPE, 1, 2), lambda t: nn.init.normal_(t, 1, 2)),
    "orthogonal": (lambda: init.orthogonal(SHAPE, 2.0), lambda t: nn.init.orthogonal_(t, 2.0)),
    "trunc_normal": (
        lambda: init.trunc_normal(SHAPE, 1.0, 0.5, -2, 2),
        lambda t: nn.init.trunc_normal_(t, 1.0, 0.5, 0.0, 2.0),
    ),
    "uniform_bias": (
        lambda: init.uniform_bias(4, SHAPE),
        lambda t: nn.init.uniform_(t, -1 / math.sqrt(4), 1 / math.sqrt(4)),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_same_values_as_torch(name):
    ours, theirs = TWINS[name]
    torch.manual_seed(3)
    value = ours()
    torch.manual_seed(3)
    assert torch.equal(value, theirs(torch.empty(SHAPE)))
    assert not value.requires_grad


def test_a_linear_layer_can_be_initialised_as_torch_does():
    torch.manual_seed(5)
    layer = nn.Linear(7, 3)
    torch.manual_seed(5)
    assert torch.equal(init.kaiming_uniform((3, 7), 7, math.sqrt(5)), layer.weight)
    assert torch.equal(init.uniform_bias(7, (3,)), layer.bias)


def test_dtype_and_device():
    value = init.normal((2,), device="cpu", dtype=torch.float64)
    assert (value.dtype, value.device.type) == (torch.float64, "cpu")


def test_truncation_draws_again_and_counts_deviations():
    value = init.trunc_normal((20_000,), 5.0, 2.0, -1.0, 1.0)
    assert value.min() >= 3.0
    assert value.max() <= 7.0
    assert (value == 3.0).sum() + (value == 7.0).sum() < 10


def test_a_fan_of_zero_is_refused():
    with pytest.raises(ValueError, match="fan_in must be positive"):
        init.kaiming_normal((2, 2), 0)


def test_set_data():
    parameter = nn.Parameter(torch.zeros(2, 2))
    init.set_data(parameter, torch.eye(2))
    assert torch.equal(parameter, torch.eye(2))
    assert parameter.requires_grad
    with pytest.raises(ValueError, match=r"shape \(2, 2\), the values \(3,\)"):
        init.set_data(parameter, torch.ones(3))
