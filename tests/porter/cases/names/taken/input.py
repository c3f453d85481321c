import torch
import torch.nn as nn


def call(x):
    return x


class Cat(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x, n=2):
        x = torch.cat([self.a(x), self.b(x)], 1)
        return self.a(self.a.weight) + x[:n].sum()


def check():
    torch.manual_seed(1)
    return Cat()(torch.ones(1, 4))
