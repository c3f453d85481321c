"""Objects of other classes around values of a flow: every call makes its own, as the plain module does."""

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from flodl import FlowError, FlowModule

pytestmark = pytest.mark.torch


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)


class Inner(nn.Module):
    def forward(self, given):
        return [each * 2 for each in values_of(given)]


def pair(body):
    """Return a plain module and a flow module whose forward is the same function."""

    def build(self):
        FlowModule.__init__(self)
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    plain = type("Plain", (Layers,), {"forward": body})
    return plain(), type("Ported", (FlowModule,), {"__init__": build, "flow": body})()


class Images:
    """An object that says what its parts are, as detectors have."""

    kept = 1

    def __init__(self, tensors, sizes):
        self.tensors, self.sizes = tensors, sizes

    def doubled(self):
        return self.tensors * 2


class Attributes(dict):
    """A dict whose items are its attributes."""

    def __init__(self, **named):
        super().__init__(**named)
        self.__dict__ = self


class Loud(OrderedDict):
    """Counts what is set: making one again must not call the user's methods."""

    count = 0

    def __setitem__(self, key, value):
        type(self).count += 1
        super().__setitem__(key, value)


class Row(list):
    """A list with an attribute."""


@dataclass
class Found:
    boxes: torch.Tensor
    others: dict


class Named(NamedTuple):
    x: torch.Tensor
    y: int


def values_of(item):
    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, list | tuple | deque):
        return list(item)
    return [each for each in vars(item).values() if isinstance(each, torch.Tensor)]


def seen(item):
    """Return everything that can be seen of a result, with tensors as lists."""
    if isinstance(item, torch.Tensor):
        return item.tolist()
    if isinstance(item, dict):
        body = [(key, seen(value)) for key, value in item.items()]
    elif isinstance(item, list | tuple | deque):
        body = [seen(each) for each in item]
    elif hasattr(item, "__dict__"):
        body = []
    else:
        return item
    inside = getattr(item, "__dict__", {})
    state = {} if inside is item else {key: seen(value) for key, value in inside.items()}
    extra = [getattr(item, name, None) for name in ("maxlen", "default_factory")]
    return type(item).__name__, body, state, extra


def ordered(self, x):
    found = OrderedDict()
    found["b"] = self.b(x)
    found["a"] = self.a(x)
    found.move_to_end("b")
    return found


def grouped(self, x):
    found = defaultdict(list)
    for layer in (self.a, self.b, self.a):
        found[id(layer) == id(self.a)].append(layer(x))
    return found


def queued(self, x):
    found = deque(maxlen=2)
    for layer in (self.a, self.b, self.a):
        found.append(layer(x))
    return found


def own_dict(self, x):
    found = Attributes(first=self.a(x))
    found.second = self.b(found.first)
    return found


def own_list(self, x):
    found = Row([self.a(x)])
    found.rest = self.b(x)
    return found


def own_object(self, x):
    found = Images(self.a(x), [(x.shape[0], 4)])
    return found, self.b(found.doubled())


def nested(self, x):
    return {"out": OrderedDict(z=Images([self.a(x)], None)), "n": SimpleNamespace(h=self.b(x))}


def data(self, x):
    return Found(self.a(x), OrderedDict(h=Named(self.b(x), 1)))


@pytest.mark.parametrize(
    "body", [ordered, grouped, queued, own_dict, own_list, own_object, nested, data]
)
def test_results_are_made_anew_in_every_call(body):
    plain, flow = pair(body)
    for size in (2, 2, 3, 2):
        x = torch.randn(size, 4)
        ours = flow(x)
        assert seen(ours) == seen(plain(x))
        assert flow(x) is not ours


def test_gradients_go_through_them():
    plain, flow = pair(own_dict)
    for _ in range(2):
        x = torch.randn(2, 4)
        for model in (plain, flow):
            model.zero_grad()
            model(x).second.sum().backward()
        assert torch.equal(plain.a.weight.grad, flow.a.weight.grad)


def test_methods_of_the_class_are_not_called_again():
    def body(self, x):
        found = Loud()
        found["h"] = self.a(x)
        return found

    _, flow = pair(body)
    flow(torch.ones(1, 4))
    before = Loud.count
    assert list(flow(torch.ones(1, 4))) == ["h"]
    assert Loud.count == before


@pytest.mark.parametrize(
    "make",
    [
        lambda h, x: OrderedDict(h=h, x=x),
        lambda h, x: Attributes(h=h, x=x),
        Images,
        Found,
    ],
    ids=["ordered", "attributes", "images", "found"],
)
def test_modules_get_them_as_arguments(make):
    def body(self, x):
        return self.inner(make(self.a(x), x))

    plain, flow = pair(body)
    plain.inner, flow.inner = Inner(), Inner()
    for size in (2, 2, 3):
        x = torch.randn(size, 4)
        assert seen(flow(x)) == seen(plain(x))


def test_a_flow_inside_a_flow_hands_them_on():
    def outer(self, x):
        found = self.inner(x)
        return self.a(found["a"]) + found["b"]

    plain, flow = pair(outer)
    plain.inner, flow.inner = pair(ordered)
    for size in (2, 2, 3):
        x = torch.randn(size, 4)
        assert torch.equal(flow(x), plain(x))


def test_an_ordered_dict_is_an_argument():
    def body(self, given):
        given = OrderedDict((key, self.a(value)) for key, value in given.items())
        return list(given.keys()), list(given.values())

    plain, flow = pair(body)
    for size, keys in ((2, "ab"), (2, "ab"), (3, "ab")):
        given = OrderedDict((key, torch.randn(size, 4)) for key in keys)
        assert seen(flow(given)) == seen(plain(given))


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_keys_of_a_result_are_keys_of_another(kind):
    """As detectors gather the losses of their parts: the keys are known only to the step."""

    def body(self, x):
        losses, marks = kind(), kind()
        losses.update(self.inner(x))
        for key, value in self.inner(x).items():
            losses[key + "2"] = value + 1
            marks[key] = True
        return losses, marks, losses["a"], "b" in losses

    plain, flow = pair(body)
    plain.inner = flow.inner = pair(lambda _, x: {"b": x, "a": x * 2})[0]
    for size in (2, 2, 3):
        x = torch.randn(size, 4)
        assert seen(flow(x)) == seen(plain(x))


class Slotted:
    __slots__ = ("h",)

    def __init__(self, h):
        self.h = h


@pytest.mark.parametrize("make", [Slotted, lambda h: {h}], ids=["slots", "set"])
def test_what_cannot_be_made_again_is_an_error(make):
    def body(self, x):
        return make(self.a(x))

    _, flow = pair(body)
    with pytest.raises(FlowError, match="cannot be made again"):
        flow(torch.ones(1, 4))
