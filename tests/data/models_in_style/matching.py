"""A helper with `match`, a walrus in tests, unpacking into lists, chained assignments."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.mode = "mean"
        self.kinds = {"mean": torch.mean, "max": torch.amax}

    def pool(self, x):
        match self.mode:
            case "mean":
                return x.mean(1)
            case "max":
                return x.amax(1)
            case _:
                raise ValueError(f"unknown mode {self.mode!r}")

    def forward(self, x):
        if (n := x.size(1)) > 2:
            x = x[:, :2] + n
        if (top := x.max()) > 1:
            x = x / top
        y = z = self.lin(x)
        first, *others = y.unbind(1)
        total = first + sum(others)
        while (norm := total.norm()) > 2:
            total = total * 0.5
        kinds = [kind for name, kind in self.kinds.items() if (key := name) == self.mode]
        return self.pool(z), total, norm, [kind(y, 1) for kind in kinds]


def inputs(rows):
    return (torch.randn(rows, 3, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 2, 4) * 9,), {}


CHANGES = {"mode": lambda net: setattr(net, "mode", "max"), "no mode": lambda net: setattr(net, "mode", "none")}
