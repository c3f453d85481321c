import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule


def pairs(items):
    """A function of a library, as far as the porter can tell."""
    return functools.reduce(lambda a, b: a * 2 + b, list(items))


class Family(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    @staticmethod
    def spread(x, layer, scale=1):
        """Called on the class, too."""
        y = layer(x) * scale
        return F.dropout(torch.relu(y), 0.2)

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def split(cls, x, parts):
        return cls.double(x.view(*x.size()[:-1], parts, -1)).transpose(-1, -2)

    @property
    def width(self):
        return self.a.in_features

    @width.setter
    def width(self, value):
        self.a.in_features = value

    def flow(self, x, scale=1):
        return self.split(x.through(self.spread, self.a, scale=scale), 2).sum(-1) * self.width


class Child(Family):
    def flow(self, x):
        return x.through(self.spread, self.a) + self.double(x)


def check():
    family, child = Family(), Child()
    results = []
    for turn in range(3):
        x = torch.rand(2 + turn, 4, requires_grad=True)
        y, z = family(x, 1 + turn), child(x)
        (y.sum() + z.sum()).backward()
        results += [y.tolist(), z.tolist(), x.grad.tolist()]
        results.append(Family.spread(x, family.a).tolist())
    family.width = 3
    results.append(family(torch.rand(1, 4)).tolist())
    return results
