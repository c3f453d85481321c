"""Tied embeddings, a shared layer, weights read by a functional, a parameter list."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4, padding_idx=0)
        self.shared = nn.Linear(4, 4)
        self.again = self.shared
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.embed.weight
        self.scales = nn.ParameterList([nn.Parameter(torch.full((4,), 1.0 + i)) for i in range(3)])
        self.gammas = nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})
        self.tie = True

    def forward(self, ids):
        x = self.embed(ids) * math.sqrt(self.embed.embedding_dim)
        for scale in self.scales:
            x = self.again(self.shared(x)) * scale
        x = x * self.gammas["a"]
        if self.tie:
            return F.linear(x, self.embed.weight), self.head(x)
        return F.linear(x, self.shared.weight, self.shared.bias), self.head(x)


def inputs(rows):
    return (torch.randint(0, 9, (rows, 3)),), {}


def untied(net):
    net.head.weight = nn.Parameter(torch.ones(9, 4))


def resized(net):
    net.embed = nn.Embedding(11, 4)


CHANGES = {
    "untied": untied, "resized": resized, "flag": lambda net: setattr(net, "tie", False),
    "longer": lambda net: net.scales.append(nn.Parameter(torch.ones(4))),
}
