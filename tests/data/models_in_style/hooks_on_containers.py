"""Containers and layers with hooks, before and after: their list is run by a loop, or as a whole."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)])
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        self.table = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        self.seen = []

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        for layer in self.body:
            x = layer(x)
        x = self.body(x)
        for name, layer in self.table.items():
            x = layer(x)
        for layer in self.body[1:]:
            x = layer(x)
        return x


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def on_body(net):
    net.body.register_forward_hook(lambda module, args, output: output * 2)


def before_stage(net):
    net.stages[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))


def removed(net):
    handle = net.body[0].register_forward_hook(lambda module, args, output: output + 3)
    net(torch.ones(2, 4))
    handle.remove()


CHANGES = {"on body": on_body, "before a stage": before_stage, "removed": removed,
           "replaced": lambda net: net.body.__setitem__(1, nn.Sigmoid()),
           "longer": lambda net: net.stages.append(nn.Linear(4, 4)),
           "own forward": lambda net: setattr(net.body[0], "forward", torch.sin)}
