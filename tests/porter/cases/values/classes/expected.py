import torch
from torch import nn
from flodl import FlowModule, call


class Several(FlowModule):
    """Takes one tensor, or several in whatever container."""

    def flow(self, x):
        if x.__class__ == list or x.__class__ is tuple:
            x = torch.cat(list(x))
        elif x.__class__ is dict:
            x = x["x"]
        rows = x.size(0)
        if rows.__class__ is int:
            x = x + rows
        return x * (2 if x.__class__ is torch.Tensor else 3)


class Arrays(FlowModule):
    """Leaves torch for numpy, and asks numbers of what it gets there."""

    def flow(self, x):
        largest = x.detach().through(torch.Tensor.numpy).max().through(torch.Tensor.item)
        rows, rest = divmod(x.size(1), 2)
        return x / largest, round(x.size(0) / 3, 1), rows, rest


class Named(FlowModule):
    """Finds methods by their names, and calls them from the class."""

    def flow(self, x):
        return x.through(torch.Tensor.add, call(getattr(x, "exp"))) - call(getattr(x, "sum"), dim=0)


def check():
    x = torch.arange(1.0, 9.0).reshape(2, 4)
    net, arrays = Several(), Arrays()
    given = (x, [x, x], {"x": x}, (x,), x)
    return [net(each) for each in given], arrays(x), arrays(x[:, :3] + 1), Named()(x)
