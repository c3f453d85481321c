"""Equal values in another memory format are a difference: later draws and views follow the strides."""

import pytest
import torch

from flodl_verify.values.comparison import find_mismatches
from flodl_verify.values.snapshot import Freezer

pytestmark = pytest.mark.torch


def found(left, right):
    first, second = (Freezer().freeze(each, "output") for each in (left, right))
    return [str(each) for each in find_mismatches(first, second, "output")]


def test_equal_tensors_of_other_strides_are_different():
    x = torch.randn(3, 4)
    turned = x.t().contiguous().t()
    assert found(x, x.clone()) == []
    assert any("strides" in each for each in found(x, turned))


def test_strides_inside_a_container_are_compared():
    x = torch.randn(2, 3, 4, 5)
    other = x.contiguous(memory_format=torch.channels_last)
    assert any("strides" in each for each in found({"a": [x]}, {"a": [other]}))
