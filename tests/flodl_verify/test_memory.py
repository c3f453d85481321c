"""What the comparison of a large model keeps: no gradient twice, digests where only equality counts."""

import math

import pytest
import torch
from torch import nn

from flodl_verify.sides.subject import freeze_gradients
from flodl_verify.values.comparison import find_mismatches
from flodl_verify.values.snapshot import DIGESTED_BYTES, Freezer, digested

pytestmark = pytest.mark.torch

LARGE = DIGESTED_BYTES // 4


def differences(one, other):
    first, second = (digested(Freezer().freeze({"x": [each]}, "")) for each in (one, other))
    return list(find_mismatches(first, second, ""))


def test_a_frozen_gradient_is_freed():
    layer = nn.Linear(3, 2)
    layer(torch.ones(1, 3)).sum().backward()
    expected = layer.weight.grad.clone()
    found = freeze_gradients(layer.named_parameters())
    frozen = {part.key: part.content for part in found.parts}
    assert torch.equal(frozen["weight"].data, expected)
    assert layer.weight.grad is None


def test_a_missing_gradient_is_another_value_than_zeros():
    with_zeros, without = nn.Linear(3, 2), nn.Linear(3, 2)
    for parameter in with_zeros.parameters():
        parameter.grad = torch.zeros_like(parameter)
    first, second = (freeze_gradients(x.named_parameters()) for x in (with_zeros, without))
    assert list(find_mismatches(first, second, "gradients"))


@pytest.mark.parametrize("size", [4, LARGE])
def test_digests_are_equal_for_the_same_bits_only(size):
    one = torch.randn(size)
    assert not differences(one, one.clone())
    other = one.clone()
    other[-1] = torch.nextafter(other[-1], torch.tensor(9.0))
    assert differences(one, other)
    assert differences(one, one.double())
    assert differences(one, one.view(2, -1))


def test_large_tensors_are_not_kept():
    frozen = digested(Freezer().freeze(torch.ones(LARGE), ""))
    assert [item.data.nbytes < 32 for item in frozen.tensors()] == [True]


def test_every_nan_is_the_same():
    one = torch.full((LARGE,), math.nan)
    assert not differences(one, -one)
