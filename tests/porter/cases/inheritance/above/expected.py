import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule, call, subflow


class Block(FlowModule):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    @subflow
    def widen(self, x):
        return x.through(self.second).through(F.relu)

    def flow(self, x, scale=1.0):
        return self.widen(x.through(self.first) * scale)


class Residual(Block):
    def flow(self, x, scale=1.0):
        return x + super().flow(x, scale=scale)


class Dropped(Residual):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 2)

    @subflow
    def widen(self, x):
        return call(self.drop, super().widen(x))

    def flow(self, x, scale=2.0):
        # Everything below, then the head.
        x = super(Dropped, self).flow(x.through(self.drop), scale)  # and below
        return F.relu(x).through(self.head)


def check():
    results = []
    for make in (Block, Residual, Dropped):
        model = make()
        output = model(torch.rand(3, 4))
        output.sum().backward()
        results += [output.tolist(), [item.grad.tolist() for item in model.parameters()]]
        results += [model.eval()(torch.ones(3, 4), 3.0).tolist(), list(model.state_dict())]
    return results
