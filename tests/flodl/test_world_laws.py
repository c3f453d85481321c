"""Laws on random modules in a changing world: a flow computes what the plain module computes.

A module is drawn from a grammar whose lines read settings, properties, nested objects, lists, dicts,
buffers, helpers, methods and globals.  One text makes both classes: its function is the `forward` of an
`nn.Module` and the `flow` of a `FlowModule`.  Then changes are drawn, and the calls around them compared.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import functools
import math
import operator
import pickle
import sys
from collections import OrderedDict
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flodl import FlowModule

pytestmark = pytest.mark.torch
WIDTH = 4


@dataclass
class Inner:
    rate: float = 2.0
    sizes: list = field(default_factory=lambda: [1.0, 2.0])


class Slotted:
    __slots__ = ("level",)

    def __init__(self):
        self.level = 1.5


class Config:
    kinds = ("plain", "odd")
    gain = 1.25

    def __init__(self):
        self.scale = 2.0
        self.flag = True
        self.kind = "plain"
        self.maybe = None
        self.count = 0
        self._depth = 3
        self.inner = Inner()
        self.slotted = Slotted()
        self.space = SimpleNamespace(offset=0.5)
        self.factors = [2.0, 0.5, 1.5]
        self.pair = (2.0, 1.0)
        self.table = {"a": 2.0, "b": 3.0}
        self.steps = OrderedDict(first=torch.tanh, second=torch.relu)
        self.tensor = torch.linspace(0, 1, WIDTH)
        self.tensors = [torch.linspace(1, 2, WIDTH)]
        self.by_name = {"t": torch.linspace(2, 3, WIDTH)}
        self.deep = {"x": [{"y": 1.25}]}
        self.array = np.linspace(1, 2, WIDTH)
        self.ids = {1, 2}

    def __len__(self):
        return len(self.factors)

    def __getitem__(self, index):
        return self.factors[index]

    def __contains__(self, key):
        return key in self.table

    @property
    def depth(self):
        return self._depth

    @depth.setter
    def depth(self, value):
        self._depth = value

    @property
    def part(self):
        return self.inner

    def twice(self):
        return self.scale * 2


# One text for both classes: {base} and {method} differ, and the lines in between are drawn.
SOURCE = """
SCALE, LIMIT = 1.5, 2
TABLE = dict(a=1.5, b=2.5)
BASE = torch.linspace(-1, 1, 4)
SHARED = Config()
HOOKS = [torch.tanh]

class Kind(enum.Enum):
    PLAIN, ODD, B = 1.5, 2.5, 3.5

class Box:
    level = 2.0
    def __init__(self):
        self.items = [1.0, 2.0, 3.0]
    def __getitem__(self, index):
        return self.items[index] * self.level
    def __call__(self, by):
        return by * self.level

def doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * SCALE
    return wrapper
@doubled
def scaled_by(x, by=2.0):
    return x * by
def scaler(by):
    def scale(config):
        return config.scale * by + LIMIT
    return scale
def rate_of(config):
    return config.inner.rate + SCALE
def shift(x, config, by=SHARED):
    return x + config.scale * by.scale
def bounded(x, low=-3.0, high=3.0):
    return x.clamp(low, high)

class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.lin = nn.Linear(4, 4)
    def forward(self, x):
        return self.lin(x) * self.config.scale

class FlowBlock({base}):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.lin = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
    def {method}(self, x):
        if self.config.flag:
            x = self.norm(x)
        return self.lin(x) * self.config.depth

class Net({base}):
    gain = 1.25
    def __init__(self):
        super().__init__()
        self.cfg = Config()
        self.cfg.mode = Kind.PLAIN
        self.box = Box()
        self.width = 3
        self.ratio = 0.5
        self.extra = None
        self.active = True
        self.act = torch.tanh
        self.beta = nn.Parameter(torch.ones(4) * 0.3)
        self.register_buffer("buf", torch.linspace(0.5, 1, 4))
        self.register_buffer("mask", None)
        self.lin = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.lin.weight
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), Block(self.cfg), FlowBlock(self.cfg)])
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.named = nn.ModuleDict(dict(a=nn.Tanh(), b=nn.ReLU()))
        self.helpers = [torch.sin, torch.cos]

    def half(self):
        return self.width / 2
    def step(self, x, by=2.0):
        return x * by if self.cfg.flag else x - by

    @property
    def factor(self):
        return self.ratio * self.cfg.scale

    @staticmethod
    def plus(x, y=1.0):
        return x + y

    @classmethod
    def of_class(cls):
        return cls.gain

    def {method}(self, x):
        cfg, box = self.cfg, self.box
{body}
        return x
"""

NUMBERS = (
    "self.cfg.scale", "cfg.depth", "cfg.inner.rate", "cfg.part.rate", "cfg.slotted.level",
    "cfg.space.offset", "cfg.gain", "Config.gain", "self.width", "self.ratio", "SCALE", "TABLE['a']",
    "SHARED.scale", "cfg.factors[0]", "cfg.factors[-1]", "sum(cfg.factors)", "max(cfg.inner.sizes)",
    "len(self.layers)", "len(cfg.factors)", "rate_of(cfg)", "rate_of(self.cfg)", "self.half()",
    "type(self).gain", "self.of_class()", "self.gain", "self.lin.out_features", "cfg.table['b']",
    "cfg.table.get('k', 3.0)", "getattr(cfg, 'more', 1.5)", "getattr(self.cfg, 'sca' + 'le')",
    "vars(cfg)['scale']", "float(cfg.flag)", "(lambda: self.cfg.scale)()",
    "next(iter(cfg.table.values()))", "cfg.twice()", "self.factor", "cfg.pair[1]",
    "min(v for v in cfg.table.values())", "self.drop.p", "self.beta.shape[0]",
    "self.layers[0].in_features", "self.layers[1].config.scale",
    "functools.reduce(lambda a, b: a * b, cfg.factors)", "int(cfg.kind == 'plain')", "len(cfg.kind)",
    "math.sqrt(abs(cfg.scale))", "cfg.kinds.index(cfg.kind)", "(cfg.maybe or 1.75)",
    "len(self._modules)", "sum(p.numel() for p in self.lin.parameters())", "len(list(self.children()))",
    "torch.finfo(x.dtype).max ** 0", "operator.attrgetter('scale')(cfg)",
    "operator.itemgetter('a')(cfg.table)", "dataclasses.asdict(cfg.inner)['rate']",
    "copy.copy(cfg).scale", "float(cfg.inner == Inner())", "vars(self)['width']",
    "self.__dict__.get('ratio', 9.0)", "cfg.inner.sizes[-1]", "sum(1 for _ in self.modules())",
    "len(repr(cfg.pair))", "sum(map(float, cfg.factors))",
    "next(filter(lambda v: v > 1, cfg.factors), 4.0)", "[*reversed(cfg.factors)][0]",
    "sum(cfg.factors[1:])", "max(cfg.table, key=cfg.table.get).__len__()", "scaler(2.0)(cfg)",
    "(lambda by=SCALE: by)()", "box[1]", "box.level", "box(3)", "Kind[cfg.kind.upper()].value",
    "cfg.deep['x'][0]['y']", "rate_of(**dict(config=cfg))", "rate_of(*[cfg])", "float(cfg.array[1])",
    "float(1 in cfg.ids)", "(cfg.table | dict(a=2.5))['a']", "cfg[0]", "float('a' in cfg)",
    "f'{cfg.scale:.1f}'.count('.')", "self.get_buffer('buf').numel()", "len(cfg)",
    "sorted(cfg.table)[0].__len__()", "[each.rate for each in (cfg.inner,)][0]",
    "cfg.__dict__['scale']",
)  # fmt: skip
CONDITIONS = (
    "cfg.flag", "self.cfg.flag and self.active", "cfg.kind == 'plain'", "cfg.kind in cfg.kinds",
    "cfg.maybe is None", "self.extra is not None", "self.training", "SCALE > 1", "len(cfg.factors) > 2",
    "'b' in cfg.table", "hasattr(cfg, 'more')", "isinstance(cfg.inner, Inner)", "self.mask is None",
    "x.size(0) > 2", "torch.is_grad_enabled()", "self.beta.requires_grad", "not cfg.factors",
    "callable(self.act)", "self.lin.bias is None", "cfg.depth > 2", "LIMIT < cfg.depth", "self.layers",
    "any(cfg.factors)", "self.drop.training", "isinstance(self.layers[0], nn.Linear)",
    "x.dtype == self.beta.dtype", "bool(cfg)", "cfg.inner == Inner()", "1 < cfg.scale < 4", "cfg.ids",
    "cfg.mode is Kind.PLAIN", "'scale' in vars(cfg)", "any(v > 2 for v in cfg.table.values())",
    "self.lin.weight is self.tied.weight", "self.lin(x).dtype == torch.float32", "self.cfg is SHARED",
    "type(cfg.scale) is float", "issubclass(type(self), nn.Module)",
)  # fmt: skip
TENSORS = (
    "self.buf", "self.beta", "self.lin.weight[0]", "cfg.tensor", "BASE", "self.buf.flip(0)",
    "(self.mask if self.mask is not None else 0.5)", "self._buffers['buf']", "getattr(self, 'beta')",
    "self.layers[0].weight.sum(0)", "next(self.parameters())",
    "(0.25 if self.extra is None else self.extra)", "self.tied.weight[0]",
    "dict(self.named_parameters())['beta']", "self.get_buffer('buf')", "self.tied(x)",
    "sum(b.sum() for b in self.lin.parameters())", "cfg.tensors[0]", "cfg.by_name['t']",
    "self.state_dict()['buf']", "torch.stack([self.buf, self.beta])[1]",
)  # fmt: skip
LINES = (
    "x = x * {n}",
    "x = x + {n}",
    "x = x - {t}",
    "x = x * {t} + {n}",
    "if {c}:\n    x = x * {n}\nelse:\n    x = x - {m}",
    "if {c}:\n    x = self.lin(x)",
    "x = x * {n} if {c} else -x",
    "y = {t} if {c} else x\nx = x + y",
    "x = self.lin(x)",
    "x = self.norm(x)",
    "x = self.drop(x)",
    "x = self.tied(x)",
    "x = self.get_submodule('lin')(x)",
    "x = dict(self.named_children())['lin'](x)",
    "x = [*self.layers.children()][0](x)",
    "x = shift(*[x, cfg])",
    "x = shift(x, **dict(config=cfg))",
    "x = scaled_by(x)",
    "x = scaler({n})(cfg) * x",
    "x = getattr(F, 'relu' if cfg.flag else 'tanh')(x)",
    "try:\n    x = x * cfg.table['k']\nexcept KeyError:\n    x = -x",
    "with contextlib.suppress(AttributeError):\n    x = x * cfg.more",
    "for factor, size in zip(cfg.factors, cfg.inner.sizes):\n    x = x * factor + size",
    "for factor in sorted(cfg.factors, reverse=cfg.flag):\n    x = x * 0.5 + factor",
    "for layer in reversed(self.layers):\n    x = layer(x)",
    "for layer in self.layers[:2]:\n    x = layer(x)",
    "h = self.lin(x)\nif h.dtype == torch.float32:\n    h = h * {n}\nx = x + h.to(x.dtype)",
    "x = x * torch.tensor({n})",
    "x = torch.where(x > {n}, x, -x)",
    "x = x.mul(other={n})",
    "del cfg.table['a']\nx = x * {n}",
    "cfg.items = [{n}]\nx = x * cfg.items[0]",
    "def total(level):\n    return level if level < 1 else level + total(level - 1)\nx = x * total({n})",
    "x = x + sum(layer(x).mean() for layer in self.layers)",
    "x = torch.stack([layer(x) for layer in self.layers]).sum(0) if len(self.layers) else x",
    "states = dict()\nstates['x'] = x\nx = states['x'] * {n}",
    "x = self.lin(x) if self.lin.weight.requires_grad else x",
    "x = x.expand(len(cfg.factors), *x.shape).sum(0) if cfg.factors else x",
    "x = self.seq(x)",
    "for layer in self.layers:\n    x = layer(x)",
    "for i in range(len(self.layers)):\n    x = self.layers[i](x) + i",
    "for i, layer in enumerate(self.layers):\n    if i < {n}:\n        x = layer(x)",
    "for factor in cfg.factors:\n    x = x * factor",
    "for key, value in cfg.table.items():\n    x = x + value * len(key)",
    "for name, layer in self.named.items():\n    x = layer(x) if name != 'b' else x + layer(x)",
    "for step in cfg.steps.values():\n    x = step(x)",
    "x = self.act(x)",
    "x = self.helpers[0](x)",
    "x = HOOKS[0](x)",
    "x = shift(x, cfg)",
    "x = shift(x, self.cfg, by=cfg)",
    "x = bounded(x, high={n} + 5)",
    "x = bounded(x)",
    "x = self.step(x)",
    "x = self.step(x, by={n})",
    "x = self.plus(x)",
    "x = Net.plus(x, {n})",
    "x = self.named[cfg.kind[:1] if cfg.kind[:1] in self.named else 'a'](x)",
    "x = {{'plain': F.relu, 'odd': torch.sigmoid}}.get(cfg.kind, torch.tanh)(x)",
    "x = functools.partial(shift, config=cfg)(x)",
    "x = (lambda y: y * {n})(x)",
    "def scaled(y):\n    return y * {n}\nx = scaled(x)",
    "cfg.count += 1\nx = x * cfg.count",
    "self.seen = {n}\nx = x + self.seen",
    "parts = [x * each for each in cfg.factors] or [x]\nx = torch.stack(parts).sum(0)",
    "x = torch.cat([x[:, :2], x[:, 2:] * {n}], dim=1)",
    "low, high = cfg.pair\nx = x.clamp(-9 * high, 9 * low)",
    "first, *rest = cfg.factors or [1.0]\nx = x * first + len(rest)",
    "x = F.dropout(x, 0.3, self.training)",
    "x = x + torch.rand(1) * {n}",
    "with torch.no_grad():\n    y = x * {n}\nx = x + y",
    "x = x.to(self.beta.dtype)",
    "x = F.linear(x, self.lin.weight, self.lin.bias)",
    "x = x[:, :{n} and 4]",
    "x = x.view(x.size(0), -1) * {n}",
    "match cfg.kind:\n    case 'plain':\n        x = x * 2\n    case _:\n        x = -x",
    "while cfg.depth > LIMIT and x.size(0) > 9:\n    x = x[1:]",
    "assert cfg.scale is not None\nx = x * cfg.scale",
    "x += {n}",
    "x = x * (chosen := {n})\nx = x + chosen",
)  # fmt: skip


def put(path, value):
    def change(module, world):
        *owners, name = path.split(".")
        for each in owners:
            module = getattr(module, each)
        # The two sides share nothing that a later change may write to.
        setattr(module, name, copy.deepcopy(value))

    return change


def do(action):
    return lambda module, world: action(module)


def world_set(name, value):
    return lambda module, world: setattr(world, name, value)


def replaced_block(module):
    module.layers[1] = nn.Linear(4, 4)
    nn.init.constant_(module.layers[1].weight, 0.2)
    nn.init.constant_(module.layers[1].bias, 0.1)


def loaded(module, assign):
    state = {key: value * 1.5 for key, value in module.state_dict().items()}
    state = {k: v if v.is_floating_point() else v.long() for k, v in state.items()}
    module.load_state_dict(state, assign=assign)


def scaling_hook(_, inputs, output):
    return output * 1.5


def moved_to_end(module):
    module.cfg.table["a"] = module.cfg.table.pop("a")


def replaced_forward(module):
    before = module.lin.forward
    module.lin.forward = lambda x: before(x) * 2


CHANGES = {
    "nothing": do(lambda m: None),
    "scale": put("cfg.scale", 5.0),
    "scale of a whole number": put("cfg.scale", 2),
    "flag": put("cfg.flag", False),
    "flag as a number": put("cfg.flag", 1),
    "kind": put("cfg.kind", "odd"),
    "unknown kind": put("cfg.kind", "b"),
    "maybe": put("cfg.maybe", 4.0),
    "depth": put("cfg.depth", 1),
    "depth behind the property": put("cfg._depth", 5),
    "more": put("cfg.more", 2.5),
    "inner": put("cfg.inner", SimpleNamespace(rate=4.0, sizes=[7.0])),
    "rate": put("cfg.inner.rate", 5.0),
    "level": put("cfg.slotted.level", 5.0),
    "offset": put("cfg.space.offset", 5.0),
    "factors longer": do(lambda m: m.cfg.factors.append(3.0)),
    "factors shorter": do(lambda m: m.cfg.factors.pop()),
    "factors exchanged": put("cfg.factors", [1.0]),
    "factors empty": do(lambda m: m.cfg.factors.clear()),
    "sizes": do(lambda m: m.cfg.inner.sizes.append(9.0)),
    "pair": put("cfg.pair", (3.0, 4.0)),
    "table value": do(lambda m: m.cfg.table.update(a=7.0)),
    "table longer": do(lambda m: m.cfg.table.update(k=7.0)),
    "table shorter": do(lambda m: m.cfg.table.pop("b")),
    "table order": do(moved_to_end),
    "steps": do(lambda m: m.cfg.steps.pop("first")),
    "step exchanged": do(lambda m: m.cfg.steps.update(second=torch.sigmoid)),
    "deep": do(lambda m: m.cfg.deep["x"].append({"y": 3.0})),
    "deep value": do(lambda m: m.cfg.deep["x"][0].update(y=3.0)),
    "array": do(lambda m: m.cfg.array.__setitem__(1, 9.0)),
    "ids": do(lambda m: m.cfg.ids.discard(1)),
    "mode": do(lambda m: setattr(m.cfg, "mode", type(m.cfg.mode).ODD)),
    "list of tensors": do(lambda m: m.cfg.tensors.__setitem__(0, torch.ones(4))),
    "dict of tensors": do(lambda m: m.cfg.by_name.update(t=torch.ones(4))),
    "box": put("box.level", 5.0),
    "items of the box": do(lambda m: m.box.items.reverse()),
    "item of the class of the box": do(lambda m: setattr(type(m.box), "__getitem__", lambda b, i: 7.0)),
    "call of the class of the box": do(lambda m: setattr(type(m.box), "__call__", lambda b, by: 7.0)),
    "item of the class of the config": do(lambda m: setattr(type(m.cfg), "__getitem__", lambda c, i: 7.0)),
    "length of the class of the config": do(lambda m: setattr(type(m.cfg), "__len__", lambda c: 0)),
    "tied weight": do(lambda m: setattr(m.tied, "weight", nn.Parameter(torch.ones(4, 4)))),
    "weight that is tied": do(lambda m: setattr(m.lin, "weight", nn.Parameter(torch.ones(4, 4)))),
    "wrapped helper": world_set("scaled_by", lambda x: x * 9),
    "factory of helpers": world_set("scaler", lambda by: lambda config: 7.0),
    "gradients off": do(lambda m: torch.set_grad_enabled(False)),
    "autocast": do(lambda m: torch.set_autocast_enabled("cpu", True)),
    "default dtype": do(lambda m: torch.set_default_dtype(torch.float64)),
    "tensor of the config": put("cfg.tensor", torch.ones(4)),
    "tensor written": do(lambda m: m.cfg.tensor.add_(1)),
    "config exchanged": do(lambda m: setattr(m, "cfg", copy.deepcopy(m.cfg))),
    "property of the config": do(lambda m: setattr(type(m.cfg), "depth", property(lambda c: 7))),
    "method of the config": do(lambda m: setattr(type(m.cfg), "twice", lambda c: 7.0)),
    "class attribute of the config": do(lambda m: setattr(type(m.cfg), "gain", 9.0)),
    "width": put("width", 6),
    "ratio": put("ratio", 0.25),
    "extra": put("extra", torch.ones(4)),
    "mask": put("mask", torch.ones(4)),
    "mask registered": do(lambda m: m.register_buffer("mask", torch.ones(4) * 2)),
    "active": put("active", False),
    "function attribute": put("act", torch.sigmoid),
    "module in the place of a function": put("act", nn.ReLU()),
    "list of functions": do(lambda m: m.helpers.__setitem__(0, torch.tanh)),
    "class attribute": do(lambda m: setattr(type(m), "gain", 9.0)),
    "method": do(lambda m: setattr(type(m), "step", lambda self, x, by=1.0: x + by * 7)),
    "method of the instance": put("half", lambda: 7.0),
    "static method": do(lambda m: setattr(type(m), "plus", staticmethod(lambda x, y=3.0: x - y))),
    "property": do(lambda m: setattr(type(m), "factor", property(lambda self: 9.0))),
    "global": world_set("SCALE", 4.0),
    "global limit": world_set("LIMIT", 9),
    "global dict": lambda m, w: w.TABLE.update(a=9.0),
    "global list": lambda m, w: w.HOOKS.__setitem__(0, torch.sigmoid),
    "global object": lambda m, w: setattr(w.SHARED, "scale", 6.0),
    "global tensor": world_set("BASE", torch.ones(4)),
    "helper": world_set("shift", lambda x, config, by=None: x * 7),
    "helper of numbers": world_set("rate_of", lambda config: 7.0),
    "default of a helper": lambda m, w: setattr(w.bounded, "__defaults__", (-1.0, 1.0)),
    "code of a helper": lambda m, w: setattr(w.bounded, "__code__", (lambda x, low, high: x * 3).__code__),
    "buffer": put("buf", torch.ones(4)),
    "buffer written": do(lambda m: m.buf.mul_(3)),
    "parameter": do(lambda m: setattr(m, "beta", nn.Parameter(torch.ones(4)))),
    "frozen": do(lambda m: m.requires_grad_(False)),
    "bias": put("lin.bias", None),
    "weights": do(lambda m: loaded(m, assign=False)),
    "weights assigned": do(lambda m: loaded(m, assign=True)),
    "double": do(lambda m: m.double()),
    "eval": do(lambda m: m.eval()),
    "dropout alone": do(lambda m: m.drop.eval()),
    "dropout stronger": put("drop.p", 0.8),
    "norm left out": put("norm", nn.Identity()),
    "layers shorter": do(lambda m: m.layers.__delitem__(-1)),
    "layers longer": do(lambda m: m.layers.append(nn.Tanh())),
    "layer exchanged": do(replaced_block),
    "layers exchanged": put("layers", nn.ModuleList([nn.ReLU()])),
    "sequence longer": do(lambda m: m.seq.append(nn.Tanh())),
    "named shorter": do(lambda m: m.named.pop("b")),
    "hook": do(lambda m: m.lin.register_forward_hook(scaling_hook)),
    "hook on a list": do(lambda m: m.layers.register_forward_hook(scaling_hook)),
    "hook on a block": do(lambda m: m.layers[-1].register_forward_hook(scaling_hook)),
    "forward of a layer": do(replaced_forward),
    "another module": do(lambda m: m.add_module("more", nn.Linear(4, 4))),
}  # fmt: skip
# Changes after which another object is called.
COPIES = {
    "nothing": lambda module: module,
    "deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
}


@st.composite
def bodies(draw):
    lines = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=6))
    numbers, tensors = st.sampled_from(NUMBERS), st.sampled_from(TENSORS)
    conditions = st.sampled_from(CONDITIONS)
    return "\n".join(
        line.format(n=draw(numbers), m=draw(numbers), t=draw(tensors), c=draw(conditions))
        for line in lines
    )


changes = st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=3)
copies = st.sampled_from(sorted(COPIES))


class Side:
    """One of the two classes, in a world of its own: a module with globals, and a `Config`."""

    def __init__(self, name, base, method, body):
        self.world = ModuleType(f"world_of_{name}")
        sys.modules[self.world.__name__] = self.world
        config = type("Config", (), {k: v for k, v in vars(Config).items() if k not in _OWN})
        config.__module__ = self.world.__name__
        vars(self.world).update(
            torch=torch, nn=nn, F=F, math=math, functools=functools, operator=operator, copy=copy, enum=enum,
            dataclasses=dataclasses, contextlib=contextlib, FlowModule=FlowModule, Config=config, Inner=Inner,
        )  # fmt: skip
        lines = "".join(f"        {line}\n" for line in body.splitlines())
        exec(SOURCE.format(base=base, method=method, body=lines), vars(self.world))
        torch.manual_seed(0)
        self.module = self.world.Net()

    def call(self, rows, seed):
        """Call the module, and return all that can be seen: values, gradients, draws, or the error."""
        torch.manual_seed(seed)
        x = torch.randn(rows, WIDTH, requires_grad=True)
        self.module.zero_grad()
        try:
            y = self.module(x)
            if y.requires_grad:
                y.float().sum().backward()
        except Exception as error:
            return [type(error)]
        grads = [p.grad for p in self.module.parameters()]
        return [y, x.grad, *grads, torch.get_rng_state(), *self.module.buffers()]

    def copy(self, make):
        """Call a copy from now on; return False if there cannot be one."""
        try:
            self.module = make(self.module)
        except (AttributeError, pickle.PicklingError):  # a change has put a lambda into the module
            return False
        return True


_OWN = ("__dict__", "__weakref__")


def same(one, two):
    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
        return one is two
    return (
        one.dtype == two.dtype
        and one.shape == two.shape
        and one.stride() == two.stride()
        and torch.equal(one.isnan(), two.isnan())
        and torch.equal(one.nan_to_num(), two.nan_to_num())
    )


@contextlib.contextmanager
def same_modes():
    try:
        yield
    finally:
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", False)
        torch.set_default_dtype(torch.float32)


@same_modes()
def require_equal_in_a_changing_world(body, names, copied):
    plain = Side("plain", "nn.Module", "forward", body)
    flow = Side("flow", "FlowModule", "flow", body)

    def compare(when):
        for rows in (3, 3, 2):
            seen = [side.call(rows, seed=rows) for side in (plain, flow)]
            assert len(seen[0]) == len(seen[1])
            for number, (left, right) in enumerate(zip(*seen, strict=True)):
                assert same(left, right), f"{when}, part {number}: {left} against {right}\n{body}"

    compare("at first")
    for name in names:
        for side in (plain, flow):
            try:
                # The values of a change are its own for each side.
                CHANGES[name](side.module, side.world)
            except (AttributeError, KeyError, IndexError):
                continue  # an earlier change has taken away what this one changes, on both sides
        compare(f"after {name}")
    if [side.copy(COPIES[copied]) for side in (plain, flow)] != [False, False]:
        compare(f"after {copied}")


@given(bodies(), changes, copies)
def test_flow_in_a_changing_world_equals_the_plain_module(body, names, copied):
    require_equal_in_a_changing_world(body, names, copied)
