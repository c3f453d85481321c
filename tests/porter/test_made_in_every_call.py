"""A port makes, asks and runs in every call what the forward does; nothing is proved here."""

import textwrap

import pytest

from tests.porter.port_twins import Twins

pytestmark = pytest.mark.torch

HEAD = """
import collections
import copy
import dataclasses
import functools
import types
import typing

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Cache:
    def __init__(self, start=0):
        self.items = []

    def add(self, x):
        self.items.append(x)
        return torch.stack(self.items).sum(0)

    @classmethod
    def empty(cls):
        return cls()


class Pair:
    def __init__(self, a, b=None):
        self.a, self.b = a, b


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Named(typing.NamedTuple):
    a: Cache
    b: int = 1


@dataclasses.dataclass
class Fresh:
    a: Cache = dataclasses.field(default_factory=Cache)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Cache


class Counter:
    def __init__(self):
        self.count = 0

    def next(self, step=1):
        self.count += step
        return self.count

    def __call__(self):
        return self.next()

    @property
    def more(self):
        return self.next()


class Output:
    def __init__(self, hidden):
        self.hidden = hidden
        self.number = TICKS.next()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, cache):
        cache = cache if isinstance(cache, Cache) else find(cache)
        return cache.add(self.linear(x))


def find(held):
    if isinstance(held, dict):
        return held["a"]
    return held[0] if isinstance(held, (list, tuple)) else held.a


def make():
    return Cache()


def make_pair():
    return Pair(Cache(), Cache())


def same(held):
    return held


def tick(number=1):
    return TICKS.next(number)


def fill(x, values):
    values.append(len(values))
    return x * len(values)


def grow(x, values):
    values.add(len(values) + 7)
    return x * len(values)


def use_up(x, values):
    return x * sum(list(values))


Alias = Cache
KINDS = {"cache": Cache}
TICKS = Counter()


class Net(nn.Module):
    kind = Cache

    def __init__(self):
        super().__init__()
        self.inner = Layer()
        self.linear = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.maker = Cache
        self.proto = Cache()
        self.counter = Counter()
        self.counters = [Counter(), Counter()]
        self.held = types.SimpleNamespace(counter=Counter(), kind=Cache, seen=[])
        self.seen = []
        self.numbers = [1, 2]
        self.register_buffer("weights", torch.ones(4))

    def made(self):
        return Cache()

    def made_with(self, number):
        cache = Cache(number)
        return Pair(cache)

    @staticmethod
    def made_static():
        return Cache()

    @classmethod
    def made_by_class(cls):
        return Cache()

    @property
    def made_read(self):
        return Cache()

    def made_by(self, kind=Cache):
        return kind()

    def filled(self, x, values):
        values.append(len(values))
        return x * len(values)

    def forward(self, x):
"""
# Where the object is made that a layer fills.
MADE = {
    "keywords": "return self.inner(x, cache=Pair(a=Cache(), b=Cache()))",
    "positions": "held = Pair(Cache(), Cache())\nreturn self.inner(x, held)",
    "deep": "held = Pair(Pair(Cache(), [Pair(Cache())]))\nreturn self.inner(x, held.a)",
    "list": "held = [Cache(), Cache()]\nreturn self.inner(x, held)",
    "tuple": "return self.inner(x, (Cache(), Cache()))",
    "dict": "return self.inner(x, {'a': Cache()})",
    "dict call": "held = dict(a=Cache())\nreturn self.inner(x, held)",
    "comprehension": "return self.inner(x, [Cache() for _ in range(2)])",
    "dict comprehension": "return self.inner(x, {key: Cache() for key in 'ab'})",
    "generator": "return self.inner(x, list(Cache() for _ in range(2)))",
    "tuple assignment": "a, b = Cache(), Cache()\nreturn self.inner(self.inner(x, a), b)",
    "list assignment": "[a, b] = [Cache(), Cache()]\nreturn self.inner(self.inner(x, a), b)",
    "chained assignment": "a = b = Cache()\nreturn self.inner(self.inner(x, a), b)",
    "subscript": "return self.inner(x, [Cache(), Cache()][1])",
    "unpacked": "return self.inner(x, *[Cache()])",
    "unpacked keywords": "named = dict(cache=Cache())\nreturn self.inner(x, **named)",
    "helper function": "return self.inner(x, make())",
    "helper function of pairs": "held = make_pair()\nreturn self.inner(x, held)",
    "handed through": "return self.inner(x, same(Cache()))",
    "method": "return self.inner(x, self.made())",
    "method with arguments": "return self.inner(x, self.made_with(2))",
    "static method": "return self.inner(x, self.made_static())",
    "class method": "return self.inner(x, self.made_by_class())",
    "property": "return self.inner(x, self.made_read)",
    "default argument": "return self.inner(x, self.made_by())",
    "class attribute": "return self.inner(x, self.kind())",
    "attribute": "cache = self.maker()\nreturn self.inner(x, cache)",
    "deep attribute": "return self.inner(x, self.held.kind())",
    "alias": "return self.inner(x, Alias())",
    "local alias": "kind = Cache\nreturn self.inner(x, kind())",
    "table": "return self.inner(x, KINDS['cache']())",
    "class method of it": "return self.inner(x, Pair(Cache.empty()))",
    "conditional": "return self.inner(x, Cache() if self.training else Pair(Cache()))",
    "branches": "if x.size(0) > 1:\n    held = Pair(a=Cache())\nelse:\n    held = Cache()\n"
    "return self.inner(x, held)",
    "or": "cache = None or Cache()\nreturn self.inner(x, cache)",
    "walrus": "return self.inner(self.inner(x, (cache := Cache())), cache)",
    "walrus in a test": "if (cache := Cache()) is not None:\n    x = self.inner(x, cache)\nreturn x",
    "set on another": "held = Pair(None)\nheld.a = Cache()\nreturn self.inner(x, held)",
    "appended": "held = []\nheld.append(Cache())\nreturn self.inner(x, held)",
    "set item": "held = {}\nheld['a'] = Cache()\nreturn self.inner(x, held)",
    "loop": "for cache in [Cache(), Cache()]:\n    x = self.inner(x, cache)\nreturn x",
    "zip": "for cache, k in zip([Cache(), Cache()], (1, 2)):\n    x = self.inner(x, cache) * k\nreturn x",
    "lambda": "make_one = lambda: Cache()\nreturn self.inner(x, make_one())",
    "nested function": "def one():\n    return Pair(Cache(2))\nreturn self.inner(x, one())",
    "partial": "one = functools.partial(Cache, 2)\nreturn self.inner(x, one())",
    "map of a lambda": "return self.inner(x, list(map(lambda i: Cache(), range(2))))",
    "map of a class": "return self.inner(x, list(map(Cache, range(2))))",
    "class of another": "return self.inner(x, type(self.proto)())",
    "getattr": "return self.inner(x, getattr(self.proto, 'empty')())",
    "copy": "return self.inner(x, copy.deepcopy(self.proto))",
    "beside a value": "held = Pair(Cache(), x)\nreturn self.inner(x, held) + held.b",
    "ordered dict": "return self.inner(x, collections.OrderedDict(a=Cache()))",
    "namespace": "return self.inner(x, types.SimpleNamespace(a=Cache()))",
    "slots": "return self.inner(x, Slotted(Cache()))",
    "named tuple": "return self.inner(x, Named(Cache()))",
    "default factory": "return self.inner(x, Fresh())",
    "frozen": "return self.inner(x, Frozen(Cache()))",
    "used here": "cache = Cache()\ny = cache.add(x)\nreturn cache.add(self.linear(y))",
    "returned": "cache = Cache()\nreturn self.inner(x, cache), cache",
    "only returned": "return self.linear(x), Pair(Cache(), [Cache()])",
    "around a result": "return Output(self.linear(x))",
    "read from a result": "made = Output(self.linear(x))\nreturn made.hidden * made.number",
}  # fmt: skip
# Code that the port cannot know: it runs, and is asked, in every call.
UNKNOWN = {
    "function": "return self.linear(x) * tick()",
    "test": "if tick() % 2:\n    x = x * 2\nreturn self.linear(x)",
    "callable in a test": "if self.counter() % 2:\n    x = x * 2\nreturn self.linear(x)",
    "method": "return self.linear(x) * self.counter.next()",
    "method of a size": "return self.linear(x) * self.counter.next(x.size(0))",
    "property": "return self.linear(x) * self.counter.more",
    "deep method": "return self.linear(x) * self.held.counter.next()",
    "variable": "counter = self.counter\nreturn self.linear(x) * counter.next()",
    "item": "return self.linear(x) * self.counters[0].next()",
    "loop": "for counter in self.counters:\n    x = self.linear(x) * counter.next()\nreturn x",
    "or": "n = self.counter.next() or 7\nreturn self.linear(x) * n",
    "and": "n = tick() and 5\nreturn self.linear(x) * n",
    "or of tensors": "y = self.linear(x).sum() or x.sum()\nreturn self.linear(x) * y",
    "and of tensors": "y = self.linear(x).sum() and x.mean()\nreturn self.linear(x) * y",
    "range": "for _ in range(tick() % 3):\n    x = self.linear(x)\nreturn x",
    "index": "return self.layers[tick() % 2](x)",
    "slice": "return self.linear(x)[:, : 1 + tick() % 2]",
    "shape": "return self.linear(x).sum() + torch.zeros(1 + tick() % 3, 3)",
    "text": "name = f'{tick() % 2}'\nreturn self.layers[int(name)](x)",
    "mapped": "a, b = map(tick, [1, 2])\nreturn self.linear(x) * a + b",
    "filtered": "return self.linear(x) * len(list(filter(lambda k: tick() % 2, [1, 2, 3])))",
    "sorted": "return self.linear(x) * sorted([1, 2], key=lambda k: k * (-1) ** tick())[0]",
    "reduced": "return self.linear(x) * functools.reduce(lambda a, b: a + tick(), (1, 2))",
    "array": "mask = torch.from_numpy(np.zeros(4))\nmask += 1\nreturn self.linear(x) + mask",
    "list of the object": "return fill(self.linear(x), self.numbers)",
    "copied list": "return fill(self.linear(x), list(self.numbers))",
    "new list": "return fill(self.linear(x), [1, 2])",
    "set": "return grow(self.linear(x), {1, 2})",
    "deque": "values = collections.deque([1, 2])\nreturn fill(self.linear(x), values)",
    "iterator": "return use_up(self.linear(x), iter([1, 2]))",
    "generator": "return use_up(x, (t.sum() for t in (x, self.linear(x))))",
    "kept generator": "values = (k for k in range(3))\nreturn use_up(self.linear(x), values)",
    "alias of a list": "seen = self.seen\nseen.append(x)\nreturn self.linear(sum(seen))",
    "filled by a method": "return self.filled(self.linear(x), self.numbers)",
    "deep list": "self.held.seen.append(x)\nreturn self.linear(sum(self.held.seen))",
    "mode of a layer": "self.drop.eval()\nreturn self.drop(self.linear(x))",
    "loss with weights": "loss = nn.CrossEntropyLoss(self.weights)\nreturn loss(self.linear(x), x.argmax(1))",
    "any item": "if (x > 0).any().item():\n    x = x * 2\nreturn self.linear(x)",
    "all of a generator": "if all(t.sum() > -9 for t in (x, x * 2)):\n    x = x * 2\nreturn self.linear(x)",
    "layer drop": "for layer in self.layers:\n    if not (self.training and torch.rand([]) < 0.5):\n"
    "        x = layer(x)\nreturn x",
    "text of a number": "name = str(x.size(0) % 2)\nreturn self.layers[int(name)](x), name",
    "formatted text": "return self.linear(x), '%s' % x.size(0)",
    "default dtype": "return self.linear(x) + torch.zeros(4, dtype=torch.get_default_dtype())",
}  # fmt: skip
QUICK = {"keywords", "list", "tuple assignment", "method", "method of a size", "or of tensors", "mapped",
         "property", "kept generator"}  # fmt: skip
CASES = [("made", name) for name in MADE] + [("unknown", name) for name in UNKNOWN]


def text_with(body):
    return HEAD.lstrip() + textwrap.indent(body, " " * 8) + "\n"


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(*case, marks=() if case[1] in QUICK else pytest.mark.slow, id="-".join(case))
        for case in CASES
    ],
)
def test_port_of_code_that_makes_or_asks_repeats_it_in_every_call(porter, tmp_path, group, name):
    body = (MADE if group == "made" else UNKNOWN)[name]
    twins = Twins(porter, tmp_path, text_with(body))
    assert "class Net(FlowModule)" in twins.text
    twins.repeat(times=4)
    twins.train(not twins.models[0].training)
    twins.repeat(times=4)


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (MADE["keywords"], "x.through(self.inner, cache=call(Pair, a=call(Cache), b=call(Cache)))"),
        (MADE["comprehension"], "[call(Cache) for _ in range(2)]"),
        (MADE["tuple assignment"], "a, b = call(Cache), call(Cache)"),
        (MADE["map of a class"], "map((lambda *items: call(Cache, *items)), range(2))"),
        (MADE["property"], "def made_read(self):\n        return call(Cache)"),
        (UNKNOWN["callable in a test"], "if call(bool, call(self.counter) % 2):"),
        (UNKNOWN["or of tensors"], "y = value if (value := x.through(self.linear).sum()).through(bool) else"),
        (UNKNOWN["deep method"], 'call(getattr, self.held, "counter").next()'),
    ],
)  # fmt: skip
def test_call_of_code_that_is_not_known_is_written_as_a_step(porter, body, written):
    assert written in porter.text(text_with(body))


@pytest.mark.parametrize(
    "body",
    [
        "return self.linear(x) * math.sqrt(4)",
        "sizes = dict(a=1)\nreturn self.linear(x) * sizes.get('a')",
        "parts = [self.linear(x)]\nparts.append(x)\nreturn torch.stack(parts)",
        "return getattr(F, 'ReLU'.lower())(self.linear(x))",
        "return self.linear(x) * len(range(3))",
        "return self.linear(x) * np.sqrt(4)",
        "return self.linear(x), Named(x)",
    ],
)
def test_pure_python_of_constants_stays_as_it_is_written(porter, body):
    text = porter.text(text_with(body).replace("import copy", "import copy\nimport math"))
    assert "call(" not in text.partition("def flow(self, x):")[2]
