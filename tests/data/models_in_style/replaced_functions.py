"""Functions and constants of the module's file, a table of them and a monkeypatched method, replaced later."""

import functools

import torch
import torch.nn.functional as F
from torch import nn


SCALE = 2.0
EPS = [1e-3]


def act(x):
    return torch.tanh(x) * SCALE


def norm(x, eps=None):
    eps = eps or EPS[0]
    return x / (x.norm(dim=-1, keepdim=True) + eps)


ACT2FN = {"act": act, "gelu": F.gelu, "silu": nn.SiLU()}


class Net(nn.Module):
    temperature = 0.5

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.act_fn = ACT2FN["act"]
        self.hidden_act = "act"
        self.norm_fn = functools.partial(norm, eps=1e-2)

    def _pre(self, x):
        return act(x) + norm(x)

    def forward(self, x):
        x = self.act_fn(self._pre(x))
        x = ACT2FN[self.hidden_act](self.lin(x)) * SCALE
        return self.norm_fn(x) / self.temperature


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def replaced(net):
    globals()["act"] = torch.sin


def constant(net):
    globals()["SCALE"] = 5.0


def patched(net):
    type(net)._pre = lambda self, x: x


def own_patched(net):
    net._pre = torch.cos


def inner_constant(net):
    EPS[0] = 0.5


CHANGES = {
    "function": replaced, "constant": constant, "method": patched, "own method": own_patched, "list": inner_constant,
    "table": lambda net: ACT2FN.update(act=torch.relu), "name": lambda net: setattr(net, "hidden_act", "gelu"),
    "module": lambda net: setattr(net, "hidden_act", "silu"),
    "class attribute": lambda net: setattr(type(net), "temperature", 2.0),
    "attribute": lambda net: setattr(net, "act_fn", nn.ReLU()),
    "partial": lambda net: setattr(net, "norm_fn", functools.partial(norm, eps=3.0)),
}
