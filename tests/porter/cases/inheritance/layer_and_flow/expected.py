import torch
from torch import nn
from flodl import FlowModule


class Named:  # no module: what is beside it needs a base of its own
    label = "chain"


class Labelled(nn.Sequential, FlowModule, Named):
    def flow(self, x):
        for module in self:
            x = x.through(module) + len(self.label)
        return x


class Conditioned(FlowModule):
    def flow(self, x, cond):
        raise NotImplementedError


class Chain(nn.Sequential, Conditioned):
    def flow(self, x, cond):
        for module in self:
            x = x.through(module, cond) if isinstance(module, Conditioned) else x.through(module)
        return x


class Scale(Conditioned):
    def flow(self, x, cond):
        return x * cond


class Doubled(FlowModule):
    def __init__(self, *modules):
        super().__init__(*modules)  # the container that stands behind it below
        self.factor = 2.0

    def flow(self, x):
        return x * self.factor


class DoubledChain(Doubled, nn.Sequential):
    def flow(self, x):
        for module in self:
            x = x.through(module)
        return super().flow(x)


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.chain = Chain(nn.Linear(4, 4), Scale(), nn.ReLU())

    def flow(self, x):
        return x.through(self.chain, x.mean())


def check():
    torch.manual_seed(0)
    x = torch.randn(2, 4)
    doubled = DoubledChain(nn.Linear(4, 4), nn.Tanh())
    return Net()(x), Labelled(nn.Linear(4, 4), nn.Tanh())(x), doubled(x)
