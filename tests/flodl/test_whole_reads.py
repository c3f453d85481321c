"""Reads that no attribute lookup shows: copies, pickles, addresses, and lookups past the class."""

import copy
import functools
import inspect
import pickle

import pytest
import torch
from torch import nn

from flodl import FlowError, FlowModule
from flodl.tracing.reads.guard_values import class_attribute

pytestmark = pytest.mark.torch


class Config:
    def __init__(self):
        self.scale = 2.0
        self.table = {"scale": 2.0}


class Scaled(FlowModule):
    """A layer whose factor is read in a way that a subclass chooses."""

    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.config = Config()
        self.layer = nn.Linear(2, 2)

    def flow(self, x):
        return self.layer(x) * self.factor()


class StateRead(Scaled):
    def factor(self):
        return self.__getstate__()["scale"]


class Reduced(Scaled):
    def factor(self):
        return self.__reduce_ex__(4)[2]["scale"]


class Copied(Scaled):
    def factor(self):
        return copy.copy(self).scale


class DeepCopied(Scaled):
    def factor(self):
        return copy.deepcopy(self).scale


class ConfigCopied(Scaled):
    def factor(self):
        return copy.copy(self.config).scale


class ConfigDeepCopied(Scaled):
    def factor(self):
        return copy.deepcopy(self.config).table["scale"]


class ConfigPickled(Scaled):
    def factor(self):
        return pickle.loads(pickle.dumps(self.config)).table["scale"]


@pytest.mark.parametrize(
    "kind",
    [StateRead, Reduced, Copied, DeepCopied, ConfigCopied, ConfigDeepCopied, ConfigPickled],
)
def test_flow_that_reads_a_whole_object_notices_a_change_in_it(kind):
    module, x = kind(), torch.randn(3, 2)
    for _ in range(3):
        assert torch.equal(module(x), module.layer(x) * 2.0)
    module.scale = module.config.scale = module.config.table["scale"] = 5.0
    for _ in range(2):
        assert torch.equal(module(x), module.layer(x) * 5.0)


class Addressed(Scaled):
    def factor(self):
        return float(id(self) % 9973)


class Hashed(Scaled):
    def factor(self):
        return float(hash(self) % 9973)


class Cached(Scaled):
    @functools.lru_cache  # noqa: B019  # a result for each module is what is tested
    def factor(self):
        return self.scale * 3


@pytest.mark.parametrize("kind", [Addressed, Hashed, Cached])
def test_copy_of_a_module_takes_no_plan_with_the_address_of_the_original(kind):
    module, x = kind(), torch.randn(3, 2)
    module(x)
    assert torch.equal(module(x), module.layer(x) * module.factor())
    made = copy.deepcopy(module)
    made.scale = 7.0
    for _ in range(2):
        assert torch.equal(made(x), made.layer(x) * made.factor())


class PastTheClass(Scaled):
    def factor(self):
        return object.__getattribute__(self, "scale")


class Static(Scaled):
    def factor(self):
        return inspect.getattr_static(self, "scale")


class AboveTheClass(Scaled):
    def factor(self):
        return super().__getattribute__("scale")


@pytest.mark.parametrize("kind", [PastTheClass, Static, AboveTheClass])
def test_flow_that_reads_past_the_class_is_refused_with_its_line(kind):
    with pytest.raises(
        FlowError, match=r"test_whole_reads\.py:\d+: `factor` reads attributes with"
    ):
        kind()(torch.randn(3, 2))


class OwnLookup(Scaled):
    def __getattribute__(self, name):
        return super().__getattribute__(name)

    def factor(self):
        return self.__getattribute__("scale") * self.scale


def test_own_lookup_of_a_class_is_followed():
    module, x = OwnLookup(), torch.randn(3, 2)
    for scale in (2.0, 2.0, 5.0, 5.0):
        module.scale = scale
        assert torch.equal(module(x), module.layer(x) * (scale * scale))


class Named(type):
    def __copy__(cls):
        return cls


def test_class_attribute_is_that_of_the_nearest_base_and_not_of_the_metaclass():
    class Base(metaclass=Named):
        part = property(lambda self: 1 / 0)

        def __call__(self):
            return 1

    class Below(Base):
        __call__ = None

    assert class_attribute(Below, "part") is vars(Base)["part"]
    assert class_attribute(Base, "__call__") is vars(Base)["__call__"]
    assert class_attribute(Below, "__call__") is None
    assert class_attribute(Below, "__copy__") is None
