import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule, Mul, Stack


class Inception(FlowModule):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 4, 1)
        self.three_a = nn.Conv2d(3, 2, 1)
        self.three_b = nn.Conv2d(2, 4, 3, padding=1)
        self.pool = nn.Conv2d(3, 2, 1)

    def flow(self, x):
        one = x.through(self.one)

        three = x.through(self.three_a).through(self.three_b)

        pool = x.through(F.avg_pool2d, kernel_size=3, stride=1, padding=1).through(self.pool)

        return torch.cat([one, three, pool], 1)


class Gated(FlowModule):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(4, 4)
        self.gate = nn.Linear(4, 4)
        self.third = nn.Linear(4, 4)

    def flow(self, x):
        mixed = x.split(self.value, (self.gate, torch.sigmoid)).merge(Mul())
        total = mixed.through(self.value) + mixed.through(self.gate) + mixed.through(self.third)
        return total.split(self.value, self.gate).merge(Stack(dim=1))


def check():
    torch.manual_seed(1)
    return Inception()(torch.randn(2, 3, 5, 5)), Gated()(torch.randn(2, 4))
