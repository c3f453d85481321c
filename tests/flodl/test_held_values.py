"""Objects that a flow makes hold values of the module: a call after a replacement has the new ones."""

import copy
import dataclasses
import functools
from collections import OrderedDict, defaultdict, deque
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from flodl import FlowModule, call

pytestmark = pytest.mark.torch


class Box:
    def __init__(self, w):
        self.w = w

    def scale(self, x):
        return x * self.w


class Slots:
    __slots__ = ("__hidden", "empty")

    def __init__(self, w):
        self.__hidden = w

    def scale(self, x):
        return x * self.__hidden


class Scaling(Box):
    def __call__(self, x):
        return x * self.w


@dataclasses.dataclass
class Data:
    w: object


class Named(NamedTuple):
    w: object


def by_attribute(x, box):
    return x * box.w


def by_deep_attribute(x, box):
    return x * box.w[0].w


def by_index(x, box):
    return x * box[0]


def by_key(x, box):
    return x * box["w"]


def by_only_item(x, box):
    return x * next(iter(box))


def by_argument(x, error):
    return x * error.args[0]


class ByAttribute(nn.Module):
    def forward(self, x):
        return x * self.w


def layer_with(w):
    layer = ByAttribute()
    vars(layer)["w"] = w
    return layer


def module_with(w):
    module = ModuleType("made")
    module.w = w
    return functools.partial(by_attribute, box=module)


def closed(w):
    def scale(x):
        return x * w

    return scale


def closed_over_object(box):
    def scale(x):
        return x * box.w

    return scale


def with_default(w):
    def scale(x, w=w):
        return x * w

    return scale


def with_named_default(w):
    def scale(x, *, w=w):
        return x * w

    return scale


FORMS = {
    "object": lambda x, w: x.through(by_attribute, Box(w)),
    "call": lambda x, w: call(by_attribute, x, Box(w)),
    "object in a list in an object": lambda x, w: x.through(by_deep_attribute, Box([Box(w)])),
    "dataclass": lambda x, w: x.through(by_attribute, Data(w)),
    "named tuple": lambda x, w: x.through(by_attribute, Named(w)),
    "namespace": lambda x, w: x.through(by_attribute, SimpleNamespace(w=w)),
    "list": lambda x, w: x.through(by_index, [w]),
    "deque": lambda x, w: x.through(by_index, deque([w])),
    "dict": lambda x, w: x.through(by_key, {"w": w}),
    "ordered dict": lambda x, w: x.through(by_key, OrderedDict(w=w)),
    "set": lambda x, w: x.through(by_only_item, {w}),
    "frozen set": lambda x, w: x.through(by_only_item, frozenset({w})),
    "keyword of a partial": lambda x, w: x.through(functools.partial(torch.mul, other=w)),
    "argument of a partial": lambda x, w: x.through(functools.partial(torch.mul, w)),
    "object of a partial": lambda x, w: x.through(functools.partial(by_attribute, box=Box(w))),
    "bound method": lambda x, w: x.through(Box(w).scale),
    "slots": lambda x, w: x.through(Slots(w).scale),
    "callable object": lambda x, w: x.through(Scaling(w)),
    "closure": lambda x, w: x.through(closed(w)),
    "closure over an object": lambda x, w: x.through(closed_over_object(Box(w))),
    "default": lambda x, w: x.through(with_default(w)),
    "named default": lambda x, w: x.through(with_named_default(w)),
    "mapping proxy": lambda x, w: x.through(by_key, MappingProxyType({"w": w})),
    "factory of a dict": lambda x, w: x.through(by_key, defaultdict(lambda: w)),
    "error": lambda x, w: x.through(by_argument, ValueError(w)),
    "class": lambda x, w: x.through(by_attribute, type("Made", (), {"w": w})),
    "object of a made class": lambda x, w: x.through(by_attribute, type("Made", (), {"w": w})()),
    "made module": lambda x, w: x.through(module_with(w)),
    "made layer": lambda x, w: x.through(layer_with(w)),
}  # fmt: skip

PLACES = {
    "parameter": lambda net: net.parameter,
    "buffer": lambda net: net.buffer,
    "tensor": lambda net: net.tensor,
    "parameter of a layer": lambda net: net.layer.weight,
    "item": lambda net: net.items[0],
    "attribute of an object": lambda net: net.config.w,
    "number": lambda net: net.number,
    "global": lambda net: WORLD,
}
WORLD = torch.tensor(2.0)


class Net(FlowModule):
    def __init__(self, form, place):
        super().__init__()
        self.form, self.place = form, place
        self.layer = nn.Linear(1, 1, bias=False)
        self.items, self.config = [None], SimpleNamespace()
        self.register_buffer("buffer", torch.tensor(0.0))
        replace_values(self, 2.0)

    def flow(self, x):
        return FORMS[self.form](x, PLACES[self.place](self))


def replace_values(net, number):
    """Put another object into every place."""
    global WORLD
    net.parameter = nn.Parameter(torch.tensor(number))
    net.layer.weight = nn.Parameter(torch.full((1, 1), number))
    net.buffer, net.tensor = torch.tensor(number), torch.tensor(number)
    net.items[0], net.config.w = torch.tensor(number), torch.tensor(number)
    net.number, WORLD = number, torch.tensor(number)


def factor(net):
    return net(torch.ones(1, 2)).unique().item()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_flow_whose_object_holds_a_replaced_value_computes_with_the_new_one(form, place):
    net = Net(form, place)
    assert [factor(net), factor(net)] == [2.0, 2.0]
    copied = copy.deepcopy(net)
    replace_values(net, 5.0)
    assert factor(net) == 5.0
    if place == "global":
        return
    assert factor(copied) == 2.0
    replace_values(copied, 3.0)
    assert [factor(copied), factor(net)] == [3.0, 5.0]
    state = {name: torch.full_like(each, 7.0) for name, each in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert factor(net) == (
        7.0 if place in {"parameter", "buffer", "parameter of a layer"} else 5.0
    )


def test_plan_of_a_step_with_an_object_has_no_step_that_compares_it():
    net = Net("object", "parameter")
    factor(net)
    assert [node.kind for node in net.spec.nodes] == ["input", "function"]


def test_flow_that_makes_an_object_without_changes_keeps_its_plan():
    net = Net("object", "parameter")
    for _ in range(3):
        factor(net)
    with torch.no_grad():
        net.parameter.fill_(4.0)
    assert factor(net) == 4.0
    assert len(net._flodl_programs()) == 1
