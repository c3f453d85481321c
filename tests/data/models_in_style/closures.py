"""Nested functions: closures over values, defaults, a `nonlocal` counter, lambdas with defaults."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.gate = nn.Linear(4, 1)
        self.p = 0.3

    def forward(self, x, *, scale=None, return_all=False):
        depth, outs = 0, []

        def maybe(d):
            return d if d is not None else 1.0

        def exists(v):
            return v is not None

        def positive(v):
            return v.mean() > 0

        def drop(y, p=self.p):
            nonlocal depth
            depth += 1
            if not self.training or p == 0:
                return y
            keep = torch.rand(y.size(0), 1) > p
            return y * keep / (1 - p)

        def run(block, y):
            out = drop(block(y)) * maybe(scale)
            if positive(out):
                out = out * 0.5
            outs.append(out)
            return out

        x = run(self.blocks[0], x)
        for i, block in enumerate(self.blocks[1:]):
            gated = (lambda t, k=i: t * torch.sigmoid(self.gate(t)) + k)(x)
            x = x + run(block, gated)
        if exists(scale) and return_all:
            return x, outs
        return (x, depth) if not return_all else (x, list(reversed(outs)), depth)


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 4),), {"scale": 2.0, "return_all": True}


CHANGES = {"p": lambda net: setattr(net, "p", 0.0)}
