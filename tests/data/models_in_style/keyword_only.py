"""Forwards with keyword-only, `*args` and `**kwargs`, handed on and taken apart."""

import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x, *context, mask=None, temperature: float = 1.0, **extra):
        out = self.lin(x) / temperature
        for each in context:
            out = out + each
        if mask is not None:
            out = out.masked_fill(mask, 0.0)
        if "bias" in extra:
            out = out + extra.pop("bias")
        if extra:
            raise TypeError(f"unexpected {sorted(extra)}")
        return out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Inner(), Inner()
        self.options = {"temperature": 2.0}

    def forward(self, *args, **kwargs):
        x, *rest = args
        mask = kwargs.pop("mask", None)
        kwargs.setdefault("bias", x.mean())
        y = self.first(x, *rest, mask=mask, **kwargs)
        z = self.second(y, **self.options)
        merged = {**self.options, "mask": x > 1}
        return self.second(z, y, x, **merged), kwargs


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    x = torch.randn(rows, 4)
    return (x, x + 1, torch.ones(4)), {"mask": x > 0, "bias": torch.full((4,), 2.0)}


def third_inputs(rows):
    return (torch.randn(rows, 4),), {"unknown": 1}


def more(net):
    net.options["bias"] = torch.ones(4)


CHANGES = {"options": lambda net: net.options.update(temperature=0.5), "more options": more}
