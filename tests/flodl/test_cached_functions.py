"""Functions below `functools.lru_cache` in a flow: their caches keep tensors, and never a proxy."""

import functools

import pytest
import torch
from torch import nn

from flodl import FlowError, FlowModule, call

pytestmark = pytest.mark.torch

CALLS = []


@functools.lru_cache(None)
def mask(size):
    CALLS.append(size)
    return torch.ones(size, size).tril()


@pytest.fixture(autouse=True)
def _empty_cache():
    mask.cache_clear()
    CALLS.clear()


class Masked(FlowModule):
    def flow(self, x):
        return x @ mask(3)


def test_cached_function_in_a_flow_keeps_a_tensor_that_others_use():
    x = torch.randn(2, 3)
    first, second = Masked(), Masked()
    expected = x @ torch.ones(3, 3).tril()
    for module in (first, first, second, second):
        assert torch.equal(module(x), expected)
    assert type(mask(3)) is torch.Tensor
    assert CALLS == [3]


def test_cached_function_of_a_proxy_is_refused_with_line_and_cure():
    class Sized(FlowModule):
        def flow(self, x):
            return x @ mask(x.size(-1))  # a proxy as the key

    class Called(FlowModule):
        def flow(self, x):
            return x @ call(mask, x.size(-1))

    with pytest.raises(FlowError, match=r"`mask` keeps its results .* call\(mask, \.\.\.\)"):
        Sized()(torch.ones(1, 3))
    assert mask.cache_info().currsize == 0
    CALLS.clear()
    module = Called()
    for size in (3, 4, 3):
        x = torch.randn(2, size)
        assert torch.equal(module(x), x @ torch.ones(size, size).tril())
    assert CALLS == [3, 4]


def test_cached_function_with_a_step_runs_it_once_as_in_plain_code():
    told = []

    @functools.lru_cache(None)
    def once(text):
        print(text)  # noqa: T201 - a step of a flow
        told.append(text)

    class Telling(FlowModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def flow(self, x):
            once("begins")
            return x.through(self.fc)

    module = Telling()
    results = [module(torch.ones(1, 2)) for _ in range(3)]
    assert told == ["begins"]
    assert all(torch.equal(each, results[0]) for each in results)
    assert "print" not in module.code


def test_cached_functions_of_a_trace_inside_another_are_its_own():
    """A module that is built by a cached function is traced there as anywhere."""

    @functools.lru_cache(None)
    def result():
        return Masked()(torch.ones(1, 3))

    class Outer(FlowModule):
        def flow(self, x):
            return x + result()

    module = Outer()
    expected = torch.ones(1, 3) + torch.tensor([[3.0, 2.0, 1.0]])
    assert torch.equal(module(torch.ones(1, 3)), expected)
    assert torch.equal(module(torch.ones(1, 3)), expected)


def test_cached_method_in_a_flow_keeps_a_tensor_for_each_module():
    class Positions(FlowModule):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        @functools.lru_cache(None)  # noqa: B019 - as model code has it
        def table(self, size):
            return torch.arange(size).float() * self.scale

        def flow(self, x):
            return x + self.table(3)

    one, two = Positions(1.0), Positions(10.0)
    for _ in range(2):
        assert one(torch.zeros(3)).tolist() == [0, 1, 2]
        assert two(torch.zeros(3)).tolist() == [0, 10, 20]
    assert type(one.table(3)) is torch.Tensor
    assert Positions.table.cache_info().misses == 2
