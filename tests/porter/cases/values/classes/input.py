import torch
from torch import nn


class Several(nn.Module):
    """Takes one tensor, or several in whatever container."""

    def forward(self, x):
        if type(x) == list or type(x) is tuple:
            x = torch.cat(list(x))
        elif type(x) is dict:
            x = x["x"]
        rows = x.size(0)
        if type(rows) is int:
            x = x + rows
        return x * (2 if type(x) is torch.Tensor else 3)


class Arrays(nn.Module):
    """Leaves torch for numpy, and asks numbers of what it gets there."""

    def forward(self, x):
        largest = x.detach().numpy().max().item()
        rows, rest = divmod(x.size(1), 2)
        return x / largest, round(x.size(0) / 3, 1), rows, rest


class Named(nn.Module):
    """Finds methods by their names, and calls them from the class."""

    def forward(self, x):
        return torch.Tensor.add(x, getattr(x, "exp")()) - getattr(x, "sum")(dim=0)


def check():
    x = torch.arange(1.0, 9.0).reshape(2, 4)
    net, arrays = Several(), Arrays()
    given = (x, [x, x], {"x": x}, (x,), x)
    return [net(each) for each in given], arrays(x), arrays(x[:, :3] + 1), Named()(x)
