"""A value that only a block below reads keeps its name."""

import torch
from torch import nn
from flodl import FlowModule, call


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def flow(self, x):
        h = x.through(self.a)
        y = h.through(self.b)
        with torch.autocast("cpu", enabled=False):
            z = h * 2
        return y + z


class Chosen(FlowModule):
    def __init__(self, mode="twice"):
        super().__init__()
        self.mode = mode
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def flow(self, x):
        h = x.through(self.a)
        y = h.through(self.b)
        match self.mode:
            case "twice":
                z = h * 2
            case _:
                z = y
        return y + z


class Late(FlowModule):
    """Functions that read a variable when they are called."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def flow(self, x):
        def shifted(v):
            return v + h

        scaled = lambda v: v * g  # noqa: E731
        h = x.through(self.a)
        g = h.through(self.b)
        return call(scaled, g.through(self.a).through(shifted))


class First(FlowModule):
    """A condition that binds what its branches take."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def flow(self, x):
        if (h := x.through(self.a)).shape[0] > 1:
            y = h.through(self.b)
        else:
            y = h
        return y + h


def check():
    return [net(torch.ones(2, 4)) for net in (Net(), Chosen(), Chosen("once"), Late(), First())]
