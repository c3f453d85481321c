"""Decorators and contexts: `no_grad` on helpers, `functools.wraps`, class methods, static methods, properties with setters."""

import contextlib
import functools
import random

import torch
from torch import nn


def scaled(factor):
    def decorate(function):
        @functools.wraps(function)
        def inner(self, *args, **kwargs):
            return function(self, *args, **kwargs) * factor * self.gain
        return inner
    return decorate


@contextlib.contextmanager
def gain_of(module, value):
    before, module._gain = module._gain, value
    try:
        yield module
    finally:
        module._gain = before


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self._gain, self.inner_gain = 1.0, 3.0

    @property
    def gain(self):
        return self._gain

    @gain.setter
    def gain(self, value):
        self._gain = value * 2

    @staticmethod
    def half(x, by=0.5):
        return x * by

    @classmethod
    def make(cls, x):
        return cls.half(x) if cls.__name__ == "Net" else x

    @scaled(2.0)
    def helper(self, x):
        return self.lin(x)

    @torch.no_grad()
    def target(self, x):
        return self.lin(x)

    def forward(self, x):
        with gain_of(self, self.inner_gain) as inner:
            y = self.lin(x) * inner.gain
        with torch.no_grad(), torch.random.fork_rng():
            noise = torch.rand_like(x)
        with torch.set_grad_enabled(self.training):
            z = self.helper(x)
        return y + self.make(z) + self.half(noise, by=self.gain), self.target(x)


def inputs(rows):
    return (torch.randn(rows, 4),), {}


CHANGES = {"gain": lambda net: setattr(net, "gain", 3.0), "inner": lambda net: setattr(net, "inner_gain", 0.5)}
