"""Objects that a flow makes are made by a step, or nobody changes them: a flow runs once, for all calls."""

from __future__ import annotations

import functools
import gc
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from flodl import FlowError, FlowModule, call

pytestmark = pytest.mark.torch


class Cache:
    """Keeps everything that it was ever given."""

    def __init__(self) -> None:
        self.items: list[torch.Tensor] = []
        self.count = 0

    def put(self, x):
        self.items.append(x)
        return torch.cat(self.items)


class Inner:
    """Holds what changes further inside."""

    def __init__(self) -> None:
        self.layers = {"first": [Cache()]}

    def put(self, x):
        return self.layers["first"][0].put(x)


class Lazy:
    """Remembers what it has computed once."""

    @functools.cached_property
    def factor(self) -> float:
        return 2.0

    def put(self, x):
        return x * self.factor


class Layer(nn.Module):
    def forward(self, x, cache):
        return cache.put(x + 1)


class Counting(nn.Module):
    def forward(self, x, cache):
        cache.count += 1
        return x * cache.count


OUTSIDE = Cache()


@pytest.fixture(autouse=True)
def _thawed():
    """The tests freeze what is imported, and holders among it could not be found."""
    gc.unfreeze()
    yield
    gc.freeze()


@functools.lru_cache(maxsize=1)
def only_one() -> Cache:
    return Cache()


class Net(FlowModule):
    """Gets its cache from one place or another."""

    def __init__(self, make, layer=Layer) -> None:
        super().__init__()
        self.layer = layer()
        self.cache = Cache()
        self.held = {"caches": [Cache()]}
        self.make = make

    def flow(self, x):
        return x.through(self.layer, self.make(self))


class Plain(FlowModule):
    """Asks nothing: it is described before its first call, if that is sound."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()

    def flow(self, x):
        cache = Cache()
        return x.through(self.layer, cache)


@pytest.mark.parametrize("layer", [Layer, Counting])
def test_one_made_by_plain_python_must_not_be_changed(layer):
    net = Net(lambda _: Cache(), layer)
    with pytest.raises(
        FlowError, match=r"the Cache that the flow has made.*call\(Cache, \.\.\.\)"
    ):
        net(torch.ones(2, 4))


def test_what_changes_may_lie_deep_inside():
    with pytest.raises(FlowError, match="the Inner that the flow has made"):
        Net(lambda _: Inner())(torch.ones(2, 4))


def test_one_around_a_value_of_the_flow_must_not_be_changed():
    class Around(FlowModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Layer()

        def flow(self, x):
            cache = Cache()
            cache.put(x)
            return x.through(self.layer, cache)

    with pytest.raises(FlowError, match="the Cache that the flow has made"):
        Around()(torch.ones(2, 4))


def test_the_owner_of_a_method_counts():
    class Method(FlowModule):
        def flow(self, x):
            return call(Cache().put, x)

    with pytest.raises(FlowError, match="the Cache that the flow has made"):
        Method()(torch.ones(2, 4))


def test_it_is_found_where_the_flow_could_be_described_before_a_call():
    net = Plain()
    assert net.describe() is False
    with pytest.raises(FlowError, match="the Cache that the flow has made"):
        net(torch.ones(2, 4))


@pytest.mark.parametrize(
    "make",
    [
        lambda net: net.cache, lambda net: net.held["caches"][0], lambda _: OUTSIDE, lambda _: only_one(),
        lambda net: vars(net)["cache"],
    ],
    ids=["attribute", "in a dict", "global", "singleton", "table"],
)  # fmt: skip
def test_one_that_was_there_before_goes_on_as_in_pytorch(make):
    OUTSIDE.items.clear()
    only_one().items.clear()
    net = Net(make)
    lengths = [len(net(torch.ones(2, 4))) for _ in range(3)]
    assert lengths == [2, 4, 6]


def test_where_holders_cannot_be_found_nothing_is_claimed():
    OUTSIDE.items.clear()
    gc.freeze()
    net = Net(lambda _: OUTSIDE)
    assert [len(net(torch.ones(2, 4))) for _ in range(2)] == [2, 4]


def test_one_that_a_step_makes_is_new_in_every_call():
    net = Net(lambda _: call(Cache))
    assert [len(net(torch.ones(2, 4))) for _ in range(3)] == [2, 2, 2]


def test_one_that_is_only_read_may_be_made_by_plain_python():
    class Scale(nn.Module):
        def forward(self, x, settings):
            return x * settings.factor

    class Settings:
        factor = 3.0

    for make in (Settings, Lazy, lambda: SimpleNamespace(factor=3.0)):
        net = Net(lambda _, make=make: make(), Scale)
        assert net(torch.ones(2)).tolist() == net(torch.ones(2)).tolist()


def test_an_input_is_the_callers():
    class Given(FlowModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Layer()

        def flow(self, x, cache):
            return x.through(self.layer, cache)

    net, cache = Given(), Cache()
    assert [len(net(torch.ones(2, 4), cache)) for _ in range(3)] == [2, 4, 6]
    assert len(net(torch.ones(2, 4), Cache())) == 2
