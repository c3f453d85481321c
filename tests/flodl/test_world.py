"""The world changes between two calls: a flow gives what the plain module gives after the same change.

One file because all cases change the same world: globals, classes and modes that one fixture restores.
"""

import argparse
import itertools
import os
import random
import re
import threading
import time
import weakref
from array import array
from collections import OrderedDict, UserDict, deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Context, Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from operator import itemgetter
from pathlib import PurePosixPath
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from flodl import Flow, FlowModule
from flodl.errors import FlowError
from flodl.tracing.active import ACTIVE, current_tracer
from flodl.tracing.reads.opaque_objects import Rule, rule_of

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def double(x):
    return x * 2


def triple(x):
    return x * 3


class ByClass:
    scale = 2.0


class ByProperty:
    def __init__(self):
        self._scale = 2.0
        self.table = {"scale": 2.0}
        self.inner = ByClass()
        self.items = [1.0, 2.0]

    @property
    def scale(self):
        return self._scale

    @property
    def part(self):
        return self.inner

    @property
    def fresh(self):
        return SimpleNamespace(scale=self._scale)

    def get(self):
        return self._scale


@dataclass
class Data:
    scale: float = 2.0
    sizes: list = field(default_factory=lambda: [1.0, 2.0])


@dataclass(slots=True)
class Slotted:
    scale: float = 2.0


class Aliased:
    """Another name for an attribute, as configurations of transformers have."""

    aliases = {"width": "hidden"}

    def __init__(self):
        self.hidden = 3.0

    def __getattribute__(self, name):
        aliases = super().__getattribute__("aliases")
        return super().__getattribute__(aliases.get(name, name))

    def __setattr__(self, name, value):
        super().__setattr__(self.aliases.get(name, name), value)


class Fallback:
    def __init__(self):
        self.__dict__["table"] = {"scale": 2.0}

    def __getattr__(self, name):
        try:
            return self.__dict__["table"][name]
        except KeyError:
            raise AttributeError(name) from None


class AttributeDict(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Holder:
    act = staticmethod(double)


class Making(dict):
    """Items are made when they are read, as the table of activations of transformers does it."""

    def __getitem__(self, key):
        return super().__getitem__(key)()


class Mode(Enum):
    FAST = 1
    SLOW = 2


class Counter:
    def __init__(self):
        self.n = 0

    def tick(self):
        self.n += 1
        return float(self.n)


SCALE = 2.0
CONFIG = ByClass()
PATTERN = re.compile("a+")
FACTORS = [2.0, 3.0]
TABLE = {"scale": 2.0}


def scaled(x):
    return x * 2.0


def scale_of():
    return 2.0


class Scaling:
    def __init__(self, scale):
        self.scale = scale

    def scaled(self, x):
        return x * self.scale


def apply(stage, x):
    return x.through(stage) if isinstance(x, Flow) and type(x) is Flow else stage(x)


def scaled_by(x, config):
    return x * config.scale


def scaled_by_default(x, config=CONFIG):
    return x * config.scale


def read_factor(module):
    return module.factor


def with_alias(self, x):
    config = self.cfg
    return x * config.scale


def writing(self, x):
    self.cfg.scale += 1
    return x * self.cfg.scale


def own(flow, change=lambda _: None):
    return flow, change, None


def configured(make, flow, change=lambda _: None):
    return flow, change, make


def put(path, value):
    def change(module):
        *owners, name = path.split(".")
        for each in owners:
            module = getattr(module, each)
        setattr(module, name, value)

    return change


def replace_global(name, value):
    return lambda _: globals().__setitem__(name, value)


def appending(self, x):
    seen = self.cfg.sizes
    seen.append(1.0)
    return x * len(seen)


def appending_tensors(self, x):
    seen = self.cfg.sizes
    seen.append(x * 2)
    return x + seen[-1] * len(seen)


def zipped(self, x):
    for position, (one, other) in enumerate(zip(self.cfg, reversed(self.cfg), strict=True)):
        x = x * one + other * position
    return x


def over_items(self, x):
    for key, value in self.cfg.items():
        x = x * value + len(key)
    return x


def over_iterator(self, x):
    for each in self.cfg:
        x = x + each
    return x


def same_or_not(x, one, other):
    return x * 2 if one is other else x * 3


def pair(make, **more):
    return lambda: SimpleNamespace(a=make(), b=make(), **more)


def let_b_be_a(module):
    module.cfg.b = module.cfg.a


def with_attributes(owner, **values):
    for name, value in values.items():
        setattr(owner, name, value)
    return owner


class ExactNumber(Decimal):
    """A class of the user below one of C."""


class Word(str):
    """Another one."""

    __slots__ = ()


class Row(np.ndarray):
    """An array of a class of the user."""


class Special:
    """Equality of a class of its own, which asks for identity."""

    def __eq__(self, other):
        return self is other

    __hash__ = None


class Wrapped:
    """Holds an iterator, as loaders of data do."""

    def __init__(self):
        self.source = iter([1.0, 2.0, 3.0, 4.0])


REFERENT = SimpleNamespace(held=None)
VARIABLE = ContextVar("VARIABLE", default=2.0)


def weak_reference():
    REFERENT.held = Data()
    return weakref.ref(REFERENT.held)


def rotating(self, x):
    values = self.cfg.values
    values.append(values.pop(0) if isinstance(values, list) else values.popleft())
    return x * values[0]


def turning(self, x):
    numbers = self.cfg.numbers
    numbers[0] = 3 - numbers[0]
    return x * int(numbers[0])


def turning_attribute(self, x):
    self.cfg.on = 3 - self.cfg.on
    return x * self.cfg.on


# The flow changes what it reads, and after two calls it finds the contents of the first.
TURNING = {
    "rotated list": configured(lambda: SimpleNamespace(values=[2.0, 3.0]), rotating),
    "rotated deque": configured(lambda: SimpleNamespace(values=deque([2.0, 3.0])), rotating),
    "turned bytes": configured(lambda: SimpleNamespace(numbers=bytearray(b"\1")), turning),
    "turned array": configured(lambda: SimpleNamespace(numbers=np.array([1])), turning),
    "turned attribute": configured(lambda: SimpleNamespace(on=1), turning_attribute),
}

# Objects of C code, which no hook can observe: told by value, by a copy or by their parts.
OPAQUE = {
    "zip of lists": configured(lambda: [2.0, 3.0], zipped, lambda m: m.cfg.append(4.0)),
    "items of a dict": configured(lambda: {"a": 2.0}, over_items, lambda m: m.cfg.update(bc=3.0)),
    "list of a long list": configured(
        lambda: [[2.0] for _ in range(20)],
        lambda s, x: x * sum(each[0] for each in s.cfg),
        lambda m: m.cfg[15].append(m.cfg[15].pop() + 1),
    ),
    "object of a set": configured(
        lambda: {Scaling(2.0)},
        lambda s, x: x * next(iter(s.cfg)).scale,
        lambda m: setattr(next(iter(m.cfg)), "scale", 5.0),
    ),
    "period": configured(
        lambda: timedelta(days=2), lambda s, x: x * s.cfg.days, put("cfg", timedelta(days=5))
    ),
    "digits of a decimal": configured(
        lambda: Decimal("2.50"), lambda s, x: x * len(str(s.cfg)), put("cfg", Decimal("2.5"))
    ),
    "fraction": configured(
        lambda: Fraction(1, 2), lambda s, x: x * s.cfg.numerator, put("cfg", Fraction(3, 2))
    ),
    "pattern": configured(
        lambda: re.compile("a+"), lambda s, x: x if s.cfg.match("b") else -x, put("cfg", re.compile("b+"))
    ),
    "pattern of a global": own(
        lambda s, x: x if PATTERN.match("b") else -x, replace_global("PATTERN", re.compile("b+"))
    ),
    "path": configured(
        lambda: PurePosixPath("a/b"), lambda s, x: x * len(s.cfg.parts), put("cfg", PurePosixPath("a"))
    ),
    "range": configured(lambda: range(2), lambda s, x: x * len(s.cfg), put("cfg", range(3))),
    "slice": configured(lambda: slice(0, 2), lambda s, x: x[:, s.cfg].sum(1), put("cfg", slice(0, 3))),
    "limits of a dtype": configured(
        lambda: torch.finfo(torch.float32), lambda s, x: x * s.cfg.bits, put("cfg", torch.finfo(torch.half))
    ),
    "class below decimal": configured(
        lambda: ExactNumber("2.5"), lambda s, x: x * float(s.cfg), put("cfg", ExactNumber("3.5"))
    ),
    "class below str": configured(
        lambda: Word("ab"), lambda s, x: x * len(s.cfg), put("cfg", Word("abc"))
    ),
    "class below array": configured(
        lambda: np.ones(2).view(Row), lambda s, x: x * float(s.cfg[0]), lambda m: m.cfg.__setitem__(0, 3.0)
    ),
    "array of objects": configured(
        lambda: np.array([Data()], dtype=object),
        lambda s, x: x * s.cfg[0].scale,
        lambda m: setattr(m.cfg[0], "scale", 3.0),
    ),
    "bytes that change": configured(
        lambda: bytearray(b"\2"), lambda s, x: x * s.cfg[0], lambda m: m.cfg.__setitem__(0, 3)
    ),
    "array of numbers": configured(
        lambda: array("f", [2.0]), lambda s, x: x * s.cfg[0], lambda m: m.cfg.__setitem__(0, 3.0)
    ),
    "view of memory": configured(
        lambda: memoryview(bytearray(b"\2")), lambda s, x: x * s.cfg[0], lambda m: m.cfg.__setitem__(0, 3)
    ),
    "getter of an item": configured(
        lambda: itemgetter(0), lambda s, x: x * s.cfg([2.0, 3.0]), put("cfg", itemgetter(1))
    ),
    "argument of a partial function": configured(
        lambda: partial(pow, 2.0), lambda s, x: x * s.cfg(2), put("cfg", partial(pow, 3.0))
    ),
    "schema of torch": configured(
        lambda: torch._C.parse_schema("f(Tensor x) -> Tensor"),
        lambda s, x: x * len(s.cfg.name),
        lambda m: setattr(m, "cfg", torch._C.parse_schema("longer(Tensor x) -> Tensor")),
    ),
    "function with a cache": configured(
        lambda: cache(lambda: 2.0), lambda s, x: x * s.cfg(), put("cfg", cache(lambda: 5.0))
    ),
    "method of a dict": configured(
        lambda: {"a": 2.0}.get, lambda s, x: x * s.cfg("a"), lambda m: m.cfg.__self__.update(a=5.0)
    ),
    "weak reference": configured(
        weak_reference, lambda s, x: x * s.cfg().scale, lambda m: setattr(m.cfg(), "scale", 5.0)
    ),
    "variable of a context": own(
        lambda s, x: x * VARIABLE.get(), lambda _: VARIABLE.set(5.0) and None
    ),
    "attribute of a thread": configured(
        lambda: with_attributes(threading.local(), scale=2.0),
        lambda s, x: x * s.cfg.scale,
        put("cfg.scale", 5.0),
    ),
    "parsed arguments": configured(
        lambda: argparse.Namespace(scale=2.0), lambda s, x: x * s.cfg.scale, put("cfg.scale", 5.0)
    ),
    "dict written in Python": configured(
        lambda: UserDict(scale=2.0), lambda s, x: x * s.cfg["scale"], lambda m: m.cfg.update(scale=5.0)
    ),
    "tensor of a distribution": configured(
        lambda: torch.distributions.Normal(torch.zeros(1), torch.ones(1)),
        lambda s, x: x + s.cfg.loc,
        put("cfg.loc", torch.ones(1)),
    ),
}  # fmt: skip

# Objects whose state changes unseen: each read is a step.
LIVE = {
    "next item": configured(lambda: iter([1.0, 2.0, 3.0, 4.0]), lambda s, x: x * next(s.cfg)),
    "next item or a default": configured(
        lambda: iter([1.0, 2.0, 3.0]), lambda s, x: x * next(s.cfg, 7.0)
    ),
    "loop over an iterator": configured(lambda: iter([1.0, 2.0, 3.0]), over_iterator),
    "sum of an iterator": configured(lambda: iter([1.0, 2.0, 3.0]), lambda s, x: x * sum(s.cfg)),
    "generator": configured(lambda: (float(n) for n in range(1, 5)), lambda s, x: x * next(s.cfg)),
    "counter of itertools": configured(lambda: itertools.count(1), lambda s, x: x * next(s.cfg)),
    "iterator of pairs": configured(
        lambda: zip([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], strict=True),
        lambda s, x: x * next(s.cfg)[1],
    ),
    "iterator of an object": configured(Wrapped, lambda s, x: x * next(s.cfg.source)),
    "random numbers of an object": configured(
        lambda: random.Random(0), lambda s, x: x * s.cfg.random()
    ),
    "branch by a random number": configured(
        lambda: random.Random(0), lambda s, x: x if s.cfg.random() < 0.5 else -x
    ),
    "random numbers of numpy": configured(
        lambda: np.random.default_rng(0), lambda s, x: x * s.cfg.random()
    ),
    "replaced generator": configured(
        lambda: random.Random(0),
        lambda s, x: x * s.cfg.random(),
        lambda m: setattr(m, "cfg", random.Random(7)),
    ),
    "context of decimals": configured(
        lambda: Context(prec=5), lambda s, x: x * s.cfg.prec, put("cfg.prec", 7)
    ),
}  # fmt: skip

# Two places whose objects become one, or are one no longer.
IDENTITY = {
    "objects": configured(
        pair(Data), lambda s, x: x if s.cfg.a is s.cfg.b else -x, let_b_be_a
    ),
    "objects without state": configured(
        pair(object), lambda s, x: x if s.cfg.a is s.cfg.b else -x, let_b_be_a
    ),
    "tensors": configured(
        pair(lambda: torch.ones(1)), lambda s, x: x if s.cfg.a is s.cfg.b else -x, let_b_be_a
    ),
    "modules": configured(
        pair(nn.Tanh), lambda s, x: x if s.cfg.a is not s.cfg.b else -x, let_b_be_a
    ),
    "lists": configured(pair(list), lambda s, x: x if s.cfg.a is s.cfg.b else -x, let_b_be_a),
    "lists that part": configured(
        lambda: SimpleNamespace(a=TABLE, b=TABLE),
        lambda s, x: x if s.cfg.a is s.cfg.b else -x,
        put("cfg.b", dict(TABLE)),
    ),
    "arguments of a helper": configured(
        pair(Data), lambda s, x: same_or_not(x, s.cfg.a, s.cfg.b), let_b_be_a
    ),
    "tied weights": configured(
        pair(lambda: nn.Linear(4, 4)),
        lambda s, x: x if s.cfg.a.weight is s.cfg.b.weight else -x,
        lambda m: setattr(m.cfg.b, "weight", m.cfg.a.weight),
    ),
    "own parts": own(
        lambda s, x: x if s.extra is s.lin else -x, lambda m: vars(m).update(extra=m.lin)
    ),
    "equality": configured(
        pair(lambda: Scaling(2.0)), lambda s, x: x if s.cfg.a == s.cfg.b else -x, let_b_be_a
    ),
    "equality of a class": configured(
        pair(Special), lambda s, x: x if s.cfg.a == s.cfg.b else -x, let_b_be_a
    ),
    "item of a list": configured(
        pair(lambda: Scaling(2.0), items=[Scaling(1.0)]),
        lambda s, x: x if s.cfg.a in s.cfg.items else -x,
        lambda m: m.cfg.items.__setitem__(0, m.cfg.a),
    ),
    "address": configured(
        pair(Data), lambda s, x: x if id(s.cfg.a) == id(s.cfg.b) else -x, let_b_be_a
    ),
}  # fmt: skip


CASES = {
    "class attribute of a config": configured(ByClass, lambda s, x: x * s.cfg.scale, put("cfg.scale", 5.0)),
    "property": configured(ByProperty, lambda s, x: x * s.cfg.scale, put("cfg._scale", 5.0)),
    "value of a method": configured(ByProperty, lambda s, x: x * s.cfg.get(), put("cfg._scale", 5.0)),
    "item of a dict": configured(
        ByProperty, lambda s, x: x * s.cfg.table["scale"], lambda m: m.cfg.table.update(scale=5.0)
    ),
    "object of a property": configured(
        ByProperty, lambda s, x: x * s.cfg.part.scale, put("cfg.inner.scale", 5.0)
    ),
    "fresh object of a property": configured(
        ByProperty, lambda s, x: x * s.cfg.fresh.scale, put("cfg._scale", 5.0)
    ),
    "method as a stage": configured(
        lambda: SimpleNamespace(part=Scaling(2.0)),
        lambda s, x: apply(s.cfg.part.scaled, x),
        put("cfg.part", Scaling(5.0)),
    ),
    "getattr": configured(ByProperty, lambda s, x: x * s.cfg.scale, put("cfg._scale", 5.0)),
    "item of a list": configured(
        ByProperty, lambda s, x: x * s.cfg.items[1], lambda m: m.cfg.items.__setitem__(1, 5.0)
    ),
    "type of an item": configured(
        lambda: [2], lambda s, x: x.int() * s.cfg[0], lambda m: m.cfg.__setitem__(0, 2.0)
    ),
    "sign of zero": configured(
        lambda: SimpleNamespace(z=0.0), lambda s, x: x / s.cfg.z, put("cfg.z", -0.0)
    ),
    "alias of a config": configured(ByClass, with_alias, put("cfg.scale", 5.0)),
    "argument of a helper": configured(
        ByClass, lambda s, x: scaled_by(x, s.cfg), put("cfg.scale", 5.0)
    ),
    "dataclass": configured(Data, lambda s, x: x * s.cfg.scale, put("cfg.scale", 5.0)),
    "list of a dataclass": configured(
        Data, lambda s, x: x * sum(s.cfg.sizes), lambda m: m.cfg.sizes.append(5.0)
    ),
    "slots": configured(Slotted, lambda s, x: x * s.cfg.scale, put("cfg.scale", 5.0)),
    "getattribute": configured(Aliased, lambda s, x: x * s.cfg.width, put("cfg.width", 5.0)),
    "getattr of the class": configured(
        Fallback, lambda s, x: x * s.cfg.scale, lambda m: m.cfg.table.update(scale=5.0)
    ),
    "keys as attributes": configured(
        lambda: AttributeDict(scale=2.0), lambda s, x: x * s.cfg.scale, lambda m: m.cfg.update(scale=5.0)
    ),
    "namespace": configured(
        lambda: SimpleNamespace(scale=2.0), lambda s, x: x * s.cfg.scale, put("cfg.scale", 5.0)
    ),
    "nested dict": configured(
        lambda: {"a": {"b": 2.0}}, lambda s, x: x * s.cfg["a"]["b"], lambda m: m.cfg["a"].update(b=5.0)
    ),
    "order of a dict": configured(
        lambda: {"a": 2.0, "b": 3.0},
        lambda s, x: x * next(iter(s.cfg.values())),
        lambda m: m.cfg.update(a=m.cfg.pop("a")),
    ),
    "object of a list": configured(
        lambda: [ByProperty()], lambda s, x: x * s.cfg[0].scale, lambda m: setattr(m.cfg[0], "_scale", 5.0)
    ),
    "replaced object of a list": configured(
        lambda: [ByProperty()],
        lambda s, x: x * s.cfg[0].scale,
        lambda m: m.cfg.__setitem__(0, SimpleNamespace(scale=7.0)),
    ),
    "values of an ordered dict": configured(
        lambda: OrderedDict(a=Data()),
        lambda s, x: x * sum(each.scale for each in s.cfg.values()),
        lambda m: setattr(m.cfg["a"], "scale", 5.0),
    ),
    "long list": configured(
        lambda: [2.0] * 100, lambda s, x: x * sum(s.cfg), lambda m: m.cfg.__setitem__(50, 5.0)
    ),
    "deque": configured(
        lambda: deque([2.0, 3.0]), lambda s, x: x * s.cfg[0], lambda m: m.cfg.rotate()
    ),
    "long list of objects": configured(
        lambda: [Data() for _ in range(20)],
        lambda s, x: x * sum(each.scale for each in s.cfg),
        lambda m: setattr(m.cfg[15], "scale", 5.0),
    ),
    "long table of functions": configured(
        lambda: {str(n): double for n in range(20)},
        lambda s, x: s.cfg["7"](x),
        lambda m: m.cfg.update({"7": triple}),
    ),
    "items that are made when they are read": configured(
        lambda: Making(a=nn.Tanh, b=nn.ReLU), lambda s, x: s.cfg["a"](x), lambda m: m.cfg.update(a=nn.ReLU)
    ),
    "set": configured(
        lambda: {1, 2}, lambda s, x: x * (2.0 if 1 in s.cfg else 3.0), lambda m: m.cfg.discard(1)
    ),
    "enumeration": configured(
        lambda: SimpleNamespace(mode=Mode.FAST),
        lambda s, x: x if s.cfg.mode is Mode.FAST else -x,
        put("cfg.mode", Mode.SLOW),
    ),
    "array": configured(
        lambda: np.ones(4, np.float32),
        lambda s, x: x * float(s.cfg[0]),
        lambda m: m.cfg.__setitem__(0, 5.0),
    ),
    "hasattr": configured(
        Data, lambda s, x: x * (2.0 if hasattr(s.cfg, "flag") else 3.0), put("cfg.flag", 5.0)
    ),
    "default of getattr": configured(
        Data, lambda s, x: x if getattr(s.cfg, "flag", None) is None else -x, put("cfg.flag", 5.0)
    ),
    "vars": configured(Data, lambda s, x: x * vars(s.cfg).get("scale"), put("cfg.scale", 5.0)),
    "deleted attribute with a default": configured(
        lambda: Scaling(2.0),
        lambda s, x: x * getattr(s.cfg, "scale", 7.0),
        lambda m: delattr(m.cfg, "scale"),
    ),
    "deleted attribute": configured(
        Data,
        lambda s, x: x * s.cfg.scale if "scale" in vars(s.cfg) else -x,
        lambda m: delattr(m.cfg, "scale"),
    ),
    "function of an object": configured(Holder, lambda s, x: s.cfg.act(x), put("cfg.act", triple)),
    "stage of an object": configured(
        Holder, lambda s, x: s.cfg.act(torch.add(x, 1)), put("cfg.act", triple)
    ),
    "function of a list": configured(
        lambda: [double], lambda s, x: s.cfg[0](x), lambda m: m.cfg.__setitem__(0, triple)
    ),
    "tensor of a list": configured(
        lambda: [torch.ones(4)], lambda s, x: x + s.cfg[0], lambda m: m.cfg.__setitem__(0, torch.zeros(4))
    ),
    "tensor of a dict": configured(
        lambda: {"t": torch.ones(4)}, lambda s, x: x + s.cfg["t"], lambda m: m.cfg.update(t=torch.zeros(4))
    ),
    "tensor of a namespace": configured(
        lambda: SimpleNamespace(t=torch.ones(4)), lambda s, x: x + s.cfg.t, put("cfg.t", torch.zeros(4))
    ),
    "module of a list": configured(
        lambda: [nn.Tanh()], lambda s, x: s.cfg[0](x), lambda m: m.cfg.__setitem__(0, nn.ReLU())
    ),
    "attribute of a layer": own(lambda s, x: x * s.lin.in_features, put("lin.in_features", 7)),
    "bias of a layer": own(lambda s, x: x if s.lin.bias is None else -x, put("lin.bias", None)),
    "mode of a layer": own(lambda s, x: x if s.lin.training else -x, lambda m: m.lin.eval()),
    "requires_grad": own(
        lambda s, x: x if s.lin.weight.requires_grad else -x, lambda m: m.lin.weight.requires_grad_(False)
    ),
    "shape of a parameter": own(
        lambda s, x: x * s.lin.weight.shape[0], put("lin.weight", nn.Parameter(torch.ones(7, 4)))
    ),
    "dtype of a parameter": own(lambda s, x: x.to(s.lin.weight.dtype), lambda m: m.lin.double()),
    "first parameter": own(
        lambda s, x: x * next(s.parameters()).shape[0], put("lin.weight", nn.Parameter(torch.ones(7, 4)))
    ),
    "number of children": own(
        lambda s, x: x * len(list(s.children())), lambda m: m.add_module("more", nn.Identity())
    ),
    "global": own(lambda s, x: x * SCALE, replace_global("SCALE", 5.0)),
    "object of a global": own(lambda s, x: x * CONFIG.scale, lambda _: setattr(CONFIG, "scale", 5.0)),
    "list of a global": own(lambda s, x: x * FACTORS[0], lambda _: FACTORS.__setitem__(0, 5.0)),
    "dict of a global": own(lambda s, x: x * TABLE["scale"], lambda _: TABLE.update(scale=5.0)),
    "replaced function": own(lambda s, x: scaled(x), replace_global("scaled", triple)),
    "replaced function of no tensor": own(
        lambda s, x: x * scale_of(), replace_global("scale_of", lambda: 9.0)
    ),
    "object of a default": own(
        lambda s, x: scaled_by_default(x), lambda _: setattr(CONFIG, "scale", 8.0)
    ),
    "global class": own(lambda s, x: x * ByClass.scale, lambda _: setattr(ByClass, "scale", 5.0)),
    "type of an object": configured(
        ByClass, lambda s, x: x * type(s.cfg).scale, lambda m: setattr(type(m.cfg), "scale", 5.0)
    ),
    "dunder class": configured(
        ByClass, lambda s, x: x * s.cfg.__class__.scale, lambda m: setattr(type(m.cfg), "scale", 5.0)
    ),
    "class attribute": own(lambda s, x: x * s.width, lambda m: setattr(type(m), "width", 5.0)),
    "class method": own(lambda s, x: x * s.of_class(), lambda m: setattr(type(m), "width", 5.0)),
    "replaced method": own(
        lambda s, x: x * s.method(), lambda m: setattr(type(m), "method", lambda _: 7.0)
    ),
    "replaced method of an instance": own(
        lambda s, x: x * s.method(), lambda m: setattr(m, "method", lambda: 7.0)
    ),
    "replaced static method": own(
        lambda s, x: s.static(x), lambda m: setattr(type(m), "static", staticmethod(triple))
    ),
    "own property": own(lambda s, x: x * s.twice, put("factor", 9.0)),
    "own attribute in a helper": own(lambda s, x: x * read_factor(s), put("factor", 9.0)),
    "own attribute behind the back": own(
        lambda s, x: x * s.factor, lambda m: vars(m).update(factor=11.0)
    ),
    "registered buffer": own(
        lambda s, x: x if s.mask is None else x + s.mask, lambda m: m.register_buffer("mask", torch.ones(4))
    ),
    "assigned buffer": own(
        lambda s, x: x if s.mask is None else x + s.mask, put("mask", torch.ones(4))
    ),
    "attribute from None to a tensor": own(
        lambda s, x: x if s.extra is None else x + s.extra, put("extra", torch.ones(4))
    ),
    "gradient mode": own(
        lambda s, x: x if torch.is_grad_enabled() else -x, lambda _: torch.set_grad_enabled(False)
    ),
    "default dtype": own(
        lambda s, x: x if torch.get_default_dtype() is torch.float32 else -x,
        lambda _: torch.set_default_dtype(torch.float64),
    ),
    "autocast": own(
        lambda s, x: x if torch.is_autocast_enabled("cpu") else -x,
        lambda _: torch.set_autocast_enabled("cpu", True),
    ),
    "environment": own(
        lambda s, x: x * float(os.environ.get("FLODL_TEST_SCALE", "2")),
        lambda _: os.environ.update(FLODL_TEST_SCALE="5"),
    ),
    "environment by getenv": own(
        lambda s, x: x * float(os.getenv("FLODL_TEST_SCALE") or 2),
        lambda _: os.environ.update(FLODL_TEST_SCALE="5"),
    ),
    "random numbers": own(lambda s, x: x * random.random() if random.random() < 0.5 else x),
    "counter behind a method": configured(Counter, lambda s, x: x * s.cfg.tick()),
    "written attribute": configured(Data, writing),
    "list that the flow fills": configured(Data, appending),
    "list that the flow fills with tensors": configured(Data, appending_tensors),
    "replaced method behind super": own(
        lambda s, x: x * s.above(), lambda m: setattr(Above, "above", lambda _: 7.0)
    ),
    **OPAQUE,
    **LIVE,
    **TURNING,
    **{f"identity of {name}": case for name, case in IDENTITY.items()},
}  # fmt: skip


class Above:
    def above(self):
        return 3.0


class Below(Above):
    def above(self):
        return super().above() + 1


class Members:
    """What the two modules of every case share."""

    width = 2.0

    def prepare(self, make):
        self.lin = nn.Linear(4, 4)
        self.cfg = make() if make else None
        self.factor = 2.0
        self.extra = None
        self.register_buffer("mask", None)

    def method(self):
        return 3.0

    @property
    def twice(self):
        return self.factor * 2

    @classmethod
    def of_class(cls):
        return cls.width

    @staticmethod
    def static(x):
        return x * 2


def module_of(base, name, flow, make):
    members = {key: value for key, value in vars(Members).items() if not key.startswith("__")}
    kind = type("Module", (Below, base), {**members, name: flow})
    module = kind()
    torch.manual_seed(0)
    module.prepare(make)
    return module


WORLD = {name: globals()[name] for name in ("SCALE", "CONFIG", "PATTERN", "scaled", "scale_of")}


ABOVE = Above.above


def restore(world):
    Above.above = ABOVE
    VARIABLE.set(2.0)
    globals().update(world)
    ByClass.scale, FACTORS[0], TABLE["scale"] = 2.0, 2.0, 2.0
    vars(CONFIG).clear()
    os.environ.pop("FLODL_TEST_SCALE", None)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_autocast_enabled("cpu", False)


@pytest.fixture(autouse=True)
def same_world():
    yield
    restore(WORLD)


def outputs(module, change):
    """Call a module twice, change the world, and call it twice more."""
    random.seed(0)
    found = [module(X) for _ in range(2)]
    change(module)
    return [*found, *(module(X) for _ in range(2))]


@pytest.mark.parametrize("case", CASES)
def test_flow_after_a_change_of_the_world_equals_the_plain_module(case):
    flow, change, make = CASES[case]
    expected = outputs(module_of(nn.Module, "forward", flow, make), change)
    restore(WORLD)
    got = outputs(module_of(FlowModule, "flow", flow, make), change)
    for left, right in zip(expected, got, strict=True):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)


@pytest.mark.parametrize(
    "case", ["random numbers of an object", "next item", "counter of itertools"]
)
def test_object_with_unseen_state_is_read_by_one_plan(case):
    flow, _, make = CASES[case]
    module = module_of(FlowModule, "flow", flow, make)
    for _ in range(3):
        module(X)
    (plans,) = module._flodl_plans.values()
    assert len(plans.programs) == 1


COUNTER = itertools.count()


@pytest.mark.parametrize(
    ("make", "flow", "read"),
    [
        (
            lambda: [iter([1.0])],
            lambda s, x: x * next(s.cfg[0]),
            r"self.cfg\[0\]`, a list_iterator",
        ),
        (
            lambda: SimpleNamespace(rng=random.Random(0)),
            lambda s, x: x * s.cfg.rng.random(),
            r"self.cfg.rng`, a Random",
        ),
        (None, lambda s, x: x * next(COUNTER), r"COUNTER`, a count"),
    ],
    ids=["item", "namespace", "global"],
)
def test_object_with_unseen_state_that_no_step_reads_is_an_error_with_its_place(make, flow, read):
    module = module_of(FlowModule, "flow", flow, make)
    with pytest.raises(FlowError, match=rf"test_world.py:\d+: the flow reads `{read}"):
        module(X)


def test_free_variable_with_unseen_state_is_an_error_with_its_name():
    numbers = iter([1.0])
    module = module_of(FlowModule, "flow", lambda s, x: x * next(numbers), None)
    with pytest.raises(
        FlowError, match=r"test_world.py:\d+: the flow reads `numbers`, a list_iterator"
    ):
        module(X)


def test_object_of_torch_that_is_a_global_is_guarded_by_its_identity():
    assert rule_of(torch._C.parse_schema("f(Tensor x) -> Tensor")) is Rule.IDENTITY
    assert rule_of(torch.Generator()) is Rule.IDENTITY


def test_lock_in_a_flow_is_held_in_every_call():
    def flow(self, x):
        with self.cfg:
            return self.lin(x)

    module = module_of(FlowModule, "flow", flow, threading.Lock)
    held = []
    module.lin.register_forward_hook(lambda *_: held.append(module.cfg.locked()))
    for _ in range(3):
        module(X)
    assert held == [True] * 3
    assert not module.cfg.locked()


def test_plan_without_comparisons_has_no_guard_on_identity():
    module = module_of(FlowModule, "flow", lambda s, x: x * s.cfg.a.scale, pair(Data))
    module(X)
    assert "id(" not in module.code


def test_free_variable_that_changes_is_read_in_every_call():
    scale = 2.0
    module = module_of(FlowModule, "flow", lambda s, x: x * scale, None)
    assert torch.equal(module(X), X * 2)
    scale = 5.0
    assert torch.equal(module(X), X * 5)


def test_items_that_are_made_when_they_are_read_are_traced_once():
    flow, _, make = CASES["items that are made when they are read"]
    module = module_of(FlowModule, "flow", flow, make)
    for _ in range(3):
        module(X)
    (plans,) = module._flodl_plans.values()
    assert len(plans.programs) == 1


def test_attribute_of_a_bridge_is_guarded():
    def flow(self, x):
        if (x.sum() > 0).through(bool):
            return x * self.cfg.scale
        return x * self.cfg.sizes[0]

    module = module_of(FlowModule, "flow", flow, Data)
    ones = torch.ones(2)
    assert [module(sign * ones)[0].item() for sign in (1, -1, 1, -1)] == [2.0, -1.0, 2.0, -1.0]
    module.cfg.sizes[0] = 7.0
    assert [module(sign * ones)[0].item() for sign in (1, -1, 1, -1)] == [2.0, -7.0, 2.0, -7.0]
    module.cfg.scale = 3.0
    assert [module(sign * ones)[0].item() for sign in (1, -1)] == [3.0, -7.0]


def test_classes_are_unhooked_after_a_flow_that_raises():
    def flow(self, x):
        raise ValueError(self.cfg.scale)

    module = module_of(FlowModule, "flow", flow, Data)
    for _ in range(2):
        with pytest.raises(ValueError, match="2"):
            module(X)
    assert "__getattribute__" not in vars(Data)
    assert "__setattr__" not in vars(Data)
    assert current_tracer() is None
    assert ACTIVE.tracer is None


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_single_hook_of_a_layer_runs_in_every_call(kind):
    module = module_of(FlowModule, "flow", lambda s, x: s.lin(x), None)
    module(X)
    seen = []
    handle = getattr(module.lin, f"register_{kind}")(lambda *_: seen.append(kind))
    for _ in range(2):
        module(X.clone().requires_grad_()).sum().backward()
    assert seen == [kind] * 2
    handle.remove()
    module(X).sum().backward()
    assert len(seen) == 2


def test_clock_in_a_flow_is_read_in_every_call():
    module = module_of(FlowModule, "flow", lambda s, x: x * (time.perf_counter_ns() % 10**6), None)
    assert not torch.equal(module(X), module(X))


def test_print_in_a_flow_prints_in_every_call(capsys):
    def flow(self, x):
        print("width", x.shape[1])  # noqa: T201
        return x

    module = module_of(FlowModule, "flow", flow, None)
    module(X), module(X), module(X)
    assert capsys.readouterr().out == "width 4\n" * 3


def test_global_set_by_a_flow_is_an_error_with_its_place():
    class Counting(FlowModule):
        def flow(self, x):
            global SCALE  # noqa: PLW0603
            SCALE += 1
            return x

    with pytest.raises(Exception, match=r"test_world.py:\d+: the flow sets the global `SCALE`"):
        Counting()(X)


@pytest.mark.parametrize(
    ("layer", "owner", "name"),
    [
        (nn.Linear(4, 4), nn.Linear, "forward"),
        (nn.Linear(4, 4), F, "linear"),
        (nn.LayerNorm(4), F, "layer_norm"),
        (nn.GELU(), nn.GELU, "forward"),
        (nn.ReLU(), F, "relu"),
    ],
)
def test_replaced_function_of_a_layer_is_used_by_flows(layer, owner, name, monkeypatch):
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def flow(self, x):
            return x.through(self.layer)

    net = Net()
    net(X)
    monkeypatch.setattr(owner, name, lambda *_, **__: torch.full((2, 4), 7.0))
    assert torch.equal(net(X), layer(X))
    assert net(X)[0, 0] == 7.0


class Tied:
    """What a language model shares: one bias at two places, one layer at two places."""

    def prepare(self):
        self.bias = nn.Parameter(torch.ones(4))
        self.inner = nn.Module()
        self.inner.lin = nn.Linear(4, 4)
        self.inner.lin.bias = self.bias
        self.first = nn.Module()
        self.first.layer = nn.Linear(4, 4)
        self.second = nn.Module()
        self.second.layer = self.first.layer


def tied(base, name, flow):
    kind = type("Module", (base,), {"prepare": Tied.prepare, name: flow})
    module = kind()
    torch.manual_seed(0)
    module.prepare()
    return module


class Structure(nn.Module):
    def scaled(self, x):
        return x * 2


def test_replaced_method_of_a_part_that_is_a_step_is_called_by_its_attribute():
    class Owner(FlowModule):
        def __init__(self):
            super().__init__()
            self.part = Structure()

        def flow(self, x):
            return x.through(self.part.scaled)

    module = Owner()
    assert torch.equal(module(X), X * 2)
    before = Structure.scaled

    def replacement(self, x):
        return before(self, x) + 1

    try:
        Structure.scaled = replacement
        for _ in range(3):
            assert torch.equal(module(X), X * 2 + 1)
    finally:
        Structure.scaled = before


TIED = {
    "parameter by its other place": (
        lambda s, x: x + s.inner.lin.bias, put("bias", nn.Parameter(torch.zeros(4)))
    ),
    "parameter at the place that was read": (
        lambda s, x: x + s.inner.lin.bias, put("inner.lin.bias", nn.Parameter(torch.zeros(4)))
    ),
    "layer by its other place": (lambda s, x: s.second.layer(x), put("first.layer", nn.Tanh())),
    "layer at the place that was read": (
        lambda s, x: s.second.layer(x), put("second.layer", nn.Tanh())
    ),
    "loaded by assignment": (
        lambda s, x: x + s.inner.lin.bias,
        lambda m: m.load_state_dict(
            {key: value * 2 + ("lin" in key) for key, value in m.state_dict().items()}, assign=True
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TIED)
def test_flow_of_tied_weights_follows_the_place_that_it_reads(case):
    flow, change = TIED[case]
    expected = outputs(tied(nn.Module, "forward", flow), change)
    got = outputs(tied(FlowModule, "flow", flow), change)
    for left, right in zip(expected, got, strict=True):
        assert torch.equal(left, right)


def clamped(self, x):
    x = self.lin(x)
    if x.dtype == torch.float32:
        x = x.clamp(-0.1, 0.1)
    return x


@pytest.mark.parametrize(
    "change",
    [lambda m: m.lin.double(), lambda _: torch.set_autocast_enabled("cpu", True)],
    ids=["double", "autocast"],
)
def test_dtype_inside_a_flow_that_changes_takes_the_other_branch(change):
    results = []
    for base, name in ((nn.Module, "forward"), (FlowModule, "flow")):
        module = module_of(base, name, clamped, None)
        module.lin.register_forward_pre_hook(lambda m, args: (args[0].to(m.weight.dtype),))
        results.append(outputs(module, change))
        restore(WORLD)
    for left, right in zip(*results, strict=True):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
