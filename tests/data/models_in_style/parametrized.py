"""Weight norm, spectral norm, and a parametrization of the author's."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.conv = nn.utils.parametrizations.spectral_norm(nn.Conv1d(4, 4, 1))
        self.square = nn.Linear(4, 4)
        parametrize.register_parametrization(self.square, "weight", Symmetric())
        self.old = nn.utils.weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        x = self.lin(x)
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        y = F.linear(x, self.square.weight, self.square.bias)
        with parametrize.cached():
            z = self.square(x) + self.square(y)
        return self.old(z), self.lin.weight.norm(), self.old.weight


def inputs(rows):
    return (torch.randn(rows, 3, 4),), {}


def taken_off(net):
    parametrize.remove_parametrizations(net.square, "weight")


def taken_off_old(net):
    nn.utils.remove_weight_norm(net.old)


CHANGES = {"removed": taken_off, "removed old": taken_off_old, "added": lambda net: nn.utils.parametrizations.orthogonal(net.square, "bias") if False else None}
