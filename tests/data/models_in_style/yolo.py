"""Layers with indices of the outputs they read (`m.f`), strided grids made at another size, exports."""

import torch
import torch.nn.functional as F
from torch import nn


class Concat(nn.Module):
    def forward(self, xs):
        return torch.cat(xs, 1)


class Detect(nn.Module):
    stride = None
    export = False

    def __init__(self):
        super().__init__()
        self.nl, self.no = 2, 3
        self.grid = [torch.empty(0) for _ in range(2)]
        self.shape = None
        self.m = nn.ModuleList(nn.Conv2d(c, 3, 1) for c in (2, 4))

    def _make_grid(self, nx=2, ny=2):
        yv, xv = torch.meshgrid(torch.arange(ny).float(), torch.arange(nx).float(), indexing="ij")
        return torch.stack((xv, yv), 0)[None]

    def forward(self, x):
        z = []
        for i in range(self.nl):
            x[i] = self.m[i](x[i])
            bs, _, ny, nx = x[i].shape
            if not self.training:
                if self.shape != x[0].shape or self.grid[i].shape[2:4] != x[i].shape[2:4]:
                    self.grid[i] = self._make_grid(nx, ny)
                xy, conf = x[i].sigmoid().split((2, self.no - 2), 1)
                z.append(torch.cat(((xy * 2 + self.grid[i]), conf), 1).view(bs, self.no, -1))
        self.shape = x[0].shape
        return x if self.training else torch.cat(z, 2) if self.export else (torch.cat(z, 2), x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(1, 2, 3, 2, 1), nn.Conv2d(2, 2, 3, 2, 1), nn.Upsample(scale_factor=2), Concat(), Detect()]
        self.save = [0, 1, 3]
        for i, (m, f) in enumerate(zip(layers, [-1, -1, -1, [-1, 0], [0, 3]])):
            m.i, m.f = i, f
        self.model = nn.Sequential(*layers)

    def forward_once(self, x, visualize=False):
        y = []
        for m in self.model:
            if m.f != -1:
                x = y[m.f] if isinstance(m.f, int) else [x if j == -1 else y[j] for j in m.f]
            x = m(x)
            y.append(x if m.i in self.save else None)
        return x

    def forward_augment(self, x):
        y = []
        for s, f in zip([1, 0.5], [None, 3]):
            xi = F.interpolate(x.flip(f) if f else x, scale_factor=s)
            y.append(self.forward_once(xi)[0])
        return torch.cat(y, -1), None

    def forward(self, x, augment=False):
        if augment:
            return self.forward_augment(x)
        return self.forward_once(x)


def inputs(rows):
    return (torch.randn(rows, 1, 8, 8),), {}


def second_inputs(rows):
    return (torch.randn(rows, 1, 16, 8),), {}


CHANGES = {"export": lambda net: setattr(net.model[-1], "export", True),
           "grid": lambda net: net.model[-1].grid.__setitem__(0, torch.ones(1, 2, 4, 4)),
           "save": lambda net: net.save.append(2)}
