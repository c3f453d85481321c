"""A value that only a block below reads keeps its name."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        y = self.b(h)
        with torch.autocast("cpu", enabled=False):
            z = h * 2
        return y + z


class Chosen(nn.Module):
    def __init__(self, mode="twice"):
        super().__init__()
        self.mode = mode
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        y = self.b(h)
        match self.mode:
            case "twice":
                z = h * 2
            case _:
                z = y
        return y + z


class Late(nn.Module):
    """Functions that read a variable when they are called."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        def shifted(v):
            return v + h

        scaled = lambda v: v * g  # noqa: E731
        h = self.a(x)
        g = self.b(h)
        y = self.a(g)
        return scaled(shifted(y))


class First(nn.Module):
    """A condition that binds what its branches take."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        if (h := self.a(x)).shape[0] > 1:
            y = self.b(h)
        else:
            y = h
        return y + h


def check():
    return [net(torch.ones(2, 4)) for net in (Net(), Chosen(), Chosen("once"), Late(), First())]
