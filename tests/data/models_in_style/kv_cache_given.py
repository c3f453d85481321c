"""A decoder that is given the cache of the call before."""

import torch
from torch import nn


class StaticCache:
    def __init__(self, rows, length):
        self.key = torch.zeros(rows, length, 4)
        self.position = 0

    def write(self, key):
        end = self.position + key.size(1)
        self.key[:, self.position : end] = key
        self.position = end
        return self.key[:, :end]

    @property
    def is_empty(self):
        return self.position == 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.start = nn.Parameter(torch.randn(4))

    def forward(self, x, cache=None):
        if cache is None:
            cache = StaticCache(x.size(0), 16)
        if cache.is_empty:
            x = x + self.start
        key = cache.write(self.proj(x).detach())
        cache.write(key[:, -1:])
        return x @ key.transpose(1, 2), cache


def inputs(rows):
    return (torch.randn(rows, 3, 4),), {}


def second_inputs(rows):
    cache = StaticCache(rows, 20)
    cache.write(torch.ones(rows, 2, 4))
    return (torch.randn(rows, 3, 4), cache), {}


CHANGES = {}
