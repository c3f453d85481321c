import random
from random import random as draw

import torch
import torch.nn as nn


def chance(p):
    return draw() < p


def coin():
    return chance(0.5)


def first(items):
    return random.choice(items)


def heads():
    return torch.rand(1).item() < 0.5


def noise(rows):
    return torch.randn(rows, 1)


class Augmented(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.p = 0.5

    def forward(self, x):
        if self.p > 0 and coin():
            x = x + noise(x.size(0))
        scale = 2.0 if chance(self.p) else 1.0
        return self.linear(x) * scale * first([1.0, 3.0])


class Torch(nn.Module):
    def forward(self, x):
        return x + 1 if heads() else x


def check():
    torch.manual_seed(0)
    random.seed(0)
    model, other = Augmented(), Torch()
    x = torch.ones(2, 4)
    return [(model(x).tolist(), other(x).tolist()) for _ in range(12)]
