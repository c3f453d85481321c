"""Only what is surely a traced value gets a flow word: helpers and stages are given other things, too."""

import textwrap
import types

import pytest
import torch

from tests.porter.port_twins import Twins

pytestmark = pytest.mark.torch

HEAD = """
import types

import torch
import torch.nn.functional as F
from torch import nn


def soft(t, bound):
    print(end="")
    return torch.clamp(t, max=bound)


def bounded(t):
    return t.sum() if t.sum().item() < 0 else -t.sum()


def nothing(x):
    print(end="")


class Two(nn.Module):
    def forward(self, a, b=None):
        return a * 2 if b is None else a * 2 + b


class Root(nn.Module):
    def forward(self, xs):
        return torch.stack(list(xs)).sum(0)


class Optional(nn.Module):
    def forward(self, x):
        if self.training:
            return None
        return x * 2


class Default(nn.Module):
    def forward(self, x, y=None):
        return 3.0 if x is None else x * 2


class Given(nn.Module):
    def __init__(self):
        super().__init__()
        self.two = Two()
        self.default = Default()
        self.root = Root()

    def forward(self, x, value):
        return x * self.two(value)


class GivenNone(Given):
    def forward(self, x, value):
        return x * self.default(value)


class GivenLists(Given):
    def forward(self, xs):
        return self.two(self.root(xs))


class Tree(Given):
    def forward(self, x, children=None):
        children = [] if children is None else children
        children.append(x)
        return self.root([x] + children)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.beta = nn.Parameter(torch.ones(4))
        self.emb = nn.Embedding(3, 4)
        self.two, self.root, self.df, self.drop = Two(), Root(), Default(), nn.Dropout(0.5)
        self.opt = Optional()
        self.given, self.given_none, self.given_lists = Given(), GivenNone(), GivenLists()
        self.tree = Tree()
        self.register_buffer("buf", torch.ones(2, 4))
        self.ps = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))])
        self.scale = 2.0
        self.none = None
        self.o = types.SimpleNamespace(w=torch.ones(4))
        self.d = {"w": torch.ones(4)}
METHODS
    def forward(self, x):
"""
# A forward, and the helper that it calls.
CASES = {
    "parameter to a step": (
        "return self.lin(x) * self._clamp(self.beta, 0.5)",
        "def _clamp(self, t, b):\n    return soft(t, b)",
    ),
    "parameter and value to a step": (
        "return self.lin(x) * self._clamp(self.beta, 0.5) + self._clamp(x, 0.2)",
        "def _clamp(self, t, b):\n    return soft(t, b)",
    ),
    "parameter to a layer": (
        "return self.lin(x) * self._two(self.beta)",
        "def _two(self, t):\n    return self.two(t)",
    ),
    "weight inside": (
        "return self.lin(x) @ self.head(x)",
        "def head(self, x):\n    w = self.emb.weight\n    return self.two(w).t() * x.sum()",
    ),
    "weight or nothing": (
        "w = self.head()\nreturn self.lin(x) @ w.t()",
        ("def head(self):\n    w = self.emb.weight if self.scale > 1 else None\n"
         "    if w is not None:\n        w = self.two(w)\n    return w"),
    ),
    "weight that may be left out": (
        "return self.lin(x) @ self.head(self.emb.weight).t() + self.head(x).sum() + self.head()",
        ("def head(self, w=None):\n    if w is not None:\n        w = self.two(w)\n        return w\n"
         "    return 1.0"),
    ),
    "weight in the place of nothing": (
        "return self.lin(x) @ self.head().t() + self.head(x).sum()",
        "def head(self, w=None):\n    if w is None:\n        w = self.emb.weight\n    return self.two(w)",
    ),
    "function that a property gives": (
        "return self.lin(x) * self.loss(x)",
        ("@property\ndef loss(self):\n    return self.own if self.none else bounded\n"
         "@loss.setter\ndef loss(self, value):\n    self.own = value"),
    ),
    "layer that a property gives": (
        "return self.lin(x) * self.part(x)",
        "@property\ndef part(self):\n    return self.two",
    ),
    "weight given": (
        "return self.lin(x) @ self.head(self.emb.weight).t()",
        "def head(self, w):\n    return self.two(F.relu(w))",
    ),
    "weight rebound": (
        "return self.lin(x) @ self.head(self.emb.weight).t()",
        "def head(self, w):\n    w = self.two(w)\n    w = self.drop(w)\n    return w",
    ),
    "list plus list": ("c = [x, x * 3]\nreturn self.root([self.lin(x), x] + c)", ""),
    "list plus result": (
        "a, b = self.lin(x), x\nc = self.more(x)\nreturn self.root([a, b] + c)",
        "def more(self, x):\n    return [x, x * 2]",
    ),
    "list plus parameter": (
        "return self.inner_(self.lin(x), [x])",
        "def inner_(self, a, c):\n    return self.root([a] + c)",
    ),
    "tuple plus parameter": (
        "return self.inner_(self.lin(x), (x,))",
        "def inner_(self, a, c):\n    return self.root((a,) + c)",
    ),
    "list": ("return self.go([x, self.lin(x)])", "def go(self, xs):\n    return self.root(xs)"),
    "result of a list": (
        "return self.go([x, self.lin(x)])",
        "def go(self, xs):\n    ys = self.root(xs)\n    return self.two(ys)",
    ),
    "tuple": ("return self.go((x, self.lin(x)))", "def go(self, xs):\n    return self.root(xs)"),
    "item of a dict": ("return self.go({'a': x})", "def go(self, d):\n    return soft(d['a'], 1.0)"),
    "None": ("return self.lin(x) * self.go(None)", "def go(self, t):\n    return self.df(t)"),
    "attribute that is None": (
        "return self.lin(x) * self.go(self.none)",
        "def go(self, t):\n    return self.df(t)",
    ),
    "number": ("return self.lin(x) * self.go(3.0)", "def go(self, t):\n    return self.two(t)"),
    "setting": ("return self.lin(x) * self.go(self.scale)", "def go(self, t):\n    return self.two(t)"),
    "size": ("return self.lin(x) * self.go(x.size(0))", "def go(self, t):\n    return self.two(t)"),
    "layer": ("return self.go(self.lin, x)", "def go(self, m, t):\n    return m(t)"),
    "list of layers": (
        "return self.go([self.lin, self.two], x)",
        "def go(self, ms, t):\n    for m in ms:\n        t = m(t)\n    return t",
    ),
    "keywords": (
        "return self.lin(x) * self.go(b=2.0, t=self.beta)",
        "def go(self, t, b):\n    return self.two(t, b)",
    ),
    "default": ("return self.lin(x) * self.go()", "def go(self, t=1.0):\n    return self.two(t)"),
    "default and value": (
        "return self.lin(x) * self.go() + self.go(x)",
        "def go(self, t=1.0):\n    return self.two(t)",
    ),
    "question about a default": (
        "return self.lin(x) * self.go() + self.go(x)",
        "def go(self, t=1.0):\n    ok = t > 1 if isinstance(t, float) else t.sum() > 0\n    return t * ok",
    ),
    "unpacked": ("return self.go(*[self.beta, x])", "def go(self, a, b):\n    return self.two(a, b)"),
    "unpacked keywords": (
        "return self.go(**{'a': self.beta, 'b': x})",
        "def go(self, a, b):\n    return self.two(a, b)",
    ),
    "nested function": ("def f(t):\n    return self.two(t)\nreturn f(self.beta) + f(x) + f(2.0)", ""),
    "lambda": ("f = lambda t: self.two(t)\nreturn f(self.beta) + f(x)", ""),
    "comprehension": ("return sum([self.two(p) for p in self.ps]) + self.lin(x)", ""),
    "loop over parameters": ("for p in self.ps:\n    x = x + self.two(p)\nreturn x", ""),
    "zip": (
        "for p, t in zip(self.ps, [x, self.lin(x)]):\n    x = x + self.two(p, t) + self.two(t)\nreturn x",
        "",
    ),
    "loop over numbers": ("for k in (1, 2):\n    x = x + self.two(k)\nreturn x", ""),
    "loop over anything": ("for t in (x, self.beta, 2.0):\n    x = x + self.two(t)\nreturn x", ""),
    "buffer": ("return self.two(self.buf) + self.go(self.buf)", "def go(self, t):\n    return self.two(t)"),
    "conditional": ("w = self.beta if self.training else x\nreturn self.two(w)", ""),
    "branches": (
        "if self.training:\n    w = self.beta\nelse:\n    w = self.lin(x)\nreturn self.two(w)",
        "",
    ),
    "rebound": ("w = x\nif self.scale > 1:\n    w = self.scale\nreturn self.two(w) + x", ""),
    "static method": (
        "return self.lin(x) * self.go(self.beta, 0.5)",
        "@staticmethod\ndef go(t, b):\n    return soft(t, b)",
    ),
    "optional result, asked": ("y = self.opt(x)\nif y is None:\n    y = x\nreturn self.two(y)", ""),
    "optional result": ("y = self.opt(x)\nreturn self.df(y) * x", ""),
    "no result": ("self.opt.train()\ny = self.opt(x)\nreturn self.df(y) * x", ""),
    "helper without a result": (
        "y = self.maybe(x)\nreturn self.df(y) * x",
        "def maybe(self, x):\n    if x.size(0) > 1:\n        return None\n    return x",
    ),
    "method of a parameter": (
        "return self.lin(x) + self.go(self.beta.exp())",
        "def go(self, t):\n    return self.two(t)",
    ),
    "arithmetic of a parameter": (
        "return self.lin(x) + self.two(self.beta * 2) + self.two(-self.beta) + self.two(self.scale * 2)",
        "",
    ),
    "item of a parameter": ("return self.lin(x) + self.two(self.ps[0]) + self.two(self.ps[1][1:2])", ""),
    "weight of a layer": ("return F.linear(x, self.two(self.lin.weight), self.lin.bias)", ""),
    "tied weight": ("return self.two(self.emb.weight.t()).sum() + x", ""),
    "new tensor": ("return self.two(torch.ones(4)) + self.two(torch.zeros(x.size(0), 4)) + x", ""),
    "getattr": ("return self.two(getattr(self, 'beta')) + x", ""),
    "get": ("return self.two(self.d.get('w')) + x", ""),
    "item": ("return self.two(self.d['w']) + x", ""),
    "attribute of an object": ("return self.two(self.o.w) + x", ""),
    "one of two results": (
        "return self.two(self.pick(x)) + x",
        "def pick(self, x):\n    return self.beta if x.size(0) > 1 else x",
    ),
    "tuple of results": (
        "a, b = self.pick(x)\nreturn self.two(a) + self.two(b)",
        "def pick(self, x):\n    return self.beta, x",
    ),
    "list of results": (
        "y = self.pick(x)\nreturn self.two(y[0]) + self.two(y[1])",
        "def pick(self, x):\n    return [self.beta, 2.0]",
    ),
    "or": ("y = self.none or x\nreturn self.two(y)", ""),
    "and": ("y = self.none is not None and x\nreturn self.two(y) + x", ""),
    "sum of parameters": ("y = 0\nfor p in self.ps:\n    y += p\nreturn self.two(y) + x", ""),
    "product of settings": ("y = 1\ny *= self.scale\nreturn self.two(y) + x", ""),
    "grown list": (
        "y = []\ny += [x]\ny += [self.beta]\nreturn self.root([t * x for t in y]) + self.two(y[1])",
        "",
    ),
    "sum of nothing": ("y = sum([])\nreturn self.two(y) + x", ""),
    "largest number": ("y = max(1, 2)\nreturn self.two(y) + x", ""),
    "walrus": ("return self.two((w := self.beta)) + self.two(w) + x", ""),
    "nested targets": (
        "(a, b), c = (self.beta, 1.0), x\nreturn self.two(a) + self.two(b) + self.two(c)",
        "",
    ),
    "starred target": (
        "a, *b = [self.beta, x, 1.0]\nreturn self.two(a) + self.root(b[:1]) + self.two(b[1])",
        "",
    ),
    "counted": ("i = 0\nwhile i < 2:\n    x = x + self.two(i)\n    i += 1\nreturn x", ""),
    "enumerated": ("for i, t in enumerate([x, x]):\n    x = x + self.two(i) + self.two(t)\nreturn x", ""),
    "forward given a number": ("return self.given(x, 2.0) + self.given(x, x) + self.given(x, 3)", ""),
    "forward given a flag": ("return self.given(x, True)", ""),
    "forward given None": ("return self.given_none(x, None)", ""),
    "forward given lists": (
        "return self.given_lists([x, x]) + self.given_lists((x, x)) + self.given_lists(x)",
        "",
    ),
    "list that grows": ("return self.tree(x) + self.tree(x, [x, x])", ""),
    "function without a result": ("y = nothing(x)\nreturn self.df(y) * x", ""),
}  # fmt: skip
QUICK = {
    "parameter to a step",
    "weight inside",
    "list plus parameter",
    "forward given None",
    "grown list",
}


def text_with(body, helper):
    methods = "\n" + textwrap.indent(helper, " " * 4) + "\n" if helper else ""
    return HEAD.lstrip().replace("METHODS", methods) + textwrap.indent(body, " " * 8) + "\n"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_port_that_gives_other_things_than_values_computes_the_same(porter, tmp_path, name):
    twins = Twins(porter, tmp_path, text_with(*CASES[name]))
    assert "class Net(FlowModule)" in twins.text
    twins.train(False)
    twins.repeat(times=3)
    twins.train()
    twins.repeat(times=3)


BASES = """
import torch
import torch.nn.functional as F
from torch import nn


class Two(nn.Module):
    def forward(self, a, b=None):
        return a * 2 if b is None else a * 2 + b


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.two = Two()
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return F.relu(self.two(x)) * self.helper(self.w)

    def helper(self, t):
        return t


class Net(Base):
    def forward(self, x):
        return x * super().forward(GIVEN)

    def helper(self, t):
        return self.two(t)
"""


@pytest.mark.parametrize("given", ["self.w", "torch.ones(4)", "x", "self.w * 2"])
def test_forward_of_a_base_that_is_given_a_parameter_computes_the_same(porter, tmp_path, given):
    twins = Twins(porter, tmp_path, BASES.lstrip().replace("GIVEN", given))
    assert "class Net(Base)" in twins.text
    assert "def flow(self, x):\n        return x * super().flow(" in twins.text
    twins.repeat()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("parameter to a step", "return call(soft, t, b)"),
        ("weight inside", "return call(self.two, w).t() * x.sum()"),
        ("list plus parameter", "return call(self.root, [a] + c)"),
        ("value", "return t.through(self.two)"),
        ("layer", "return t.through(m)"),
    ],
)
def test_parameter_of_a_helper_is_what_its_calls_give(porter, name, written):
    own = ("return self.go(self.lin(x))", "def go(self, t):\n    return self.two(t)")
    assert written in porter.text(text_with(*CASES.get(name, own)))


def test_layer_that_a_tensor_chooses_is_chosen_in_every_call(porter, tmp_path):
    body = "for i in (x.sum(0) > 0).nonzero():\n    x = self.ps[0] * self.layers[i](x)\nreturn x"
    text = text_with(body, "").replace(
        "self.scale = 2.0", "self.layers = nn.ModuleList([self.lin] * 4)"
    )
    twins = Twins(porter, tmp_path, text)
    assert "self.layers[call(int, i)]" in twins.text
    twins.repeat()


STAND_IN = """
import torch
from torch import nn


def matrix(n):
    m = torch.eye(n)
    return m * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def inverse(self, n):
        m = matrix(n)
        return torch.linalg.pinv(m)

    def forward(self, x):
        return self.lin(x) @ self.inverse(x.shape[-1])
"""


def test_function_that_is_replaced_may_return_a_stand_in(porter, tmp_path):
    # Seen in timm's own tests: the stand-ins of a matrix and of `pinv` are no tensors.
    twins = Twins(porter, tmp_path, STAND_IN.lstrip())
    twins.call(torch.ones(2, 4))
    for module, model in zip(twins.modules, twins.models, strict=True):
        module.matrix = lambda n: ("matrix", n)
        module.torch = types.SimpleNamespace(linalg=types.SimpleNamespace(pinv=lambda m: [m]))
        assert model.inverse(3) == [("matrix", 3)]
