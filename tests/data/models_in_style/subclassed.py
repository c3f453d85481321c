"""Bases of the file: `super().forward`, hooks by methods, class attributes as settings, layers of torch extended."""

import collections

import torch
import torch.nn.functional as F
from torch import nn


class WSConv(nn.Conv1d):
    def forward(self, x):
        w = self.weight
        w = (w - w.mean((1, 2), keepdim=True)) / (w.std((1, 2), keepdim=True, unbiased=False) + 1e-5)
        return self._conv_forward(x, w, self.bias)


class LayerNorm1d(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x.transpose(1, 2), self.normalized_shape, self.weight, self.bias, self.eps).transpose(1, 2)


class Base(nn.Module):
    scale = 1.0

    def __init__(self):
        super().__init__()
        self.conv, self.norm = WSConv(4, 4, 1), LayerNorm1d(4)

    def extra(self, x):
        return x

    def _prepare(self, x, flip=False):
        return x.flip(-1) if flip else x

    def forward(self, x, flip=False):
        x = self.norm(self.conv(self._prepare(x, flip)))
        return self.extra(x) * self.scale


class Block(Base):
    scale = 2.0

    def extra(self, x):
        return x + super().extra(x).relu()


class Net(Block):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(collections.OrderedDict(first=Block(), second=Base()))
        self.table = nn.Embedding(5, 4)

    def forward(self, x, flip=False, *, ids=None):
        y = super().forward(x, flip=flip)
        y = self.seq(y)
        if ids is not None:
            y = y + self.table(ids).transpose(1, 2)
        return y if not isinstance(self, Base) else y * 0.5


def inputs(rows):
    return (torch.randn(rows, 4, 3),), {}


def second_inputs(rows):
    return (torch.randn(rows, 4, 2), True), {"ids": torch.randint(0, 5, (rows, 2))}


def flipped(net):
    Base._prepare = lambda self, x, flip=False: x * 2


CHANGES = {"scale": lambda net: setattr(Block, "scale", 3.0), "own scale": lambda net: setattr(net.seq[0], "scale", 0.1),
           "prepare": flipped, "eps": lambda net: setattr(net.norm, "eps", 0.1)}
