import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.steps = 0

    def forward(self, x, more=None):
        while more:
            x = self.a(x)
            more = more - 1
        rest = self.rest(x)
        while rest and self.steps < 3:
            x, rest = self.b(x), self.rest(x)
            self.steps += 1
        return x

    def rest(self, x, limit=None):
        if limit:
            return x.mean() > limit
        return x.sum() > 0


def check():
    torch.manual_seed(2)
    model, x = Net(), torch.randn(3, 4)
    found = [model(x), model(x, 2), model(-x, torch.tensor(1)), model(x * 9), model(x, 0)]
    return [item.tolist() for item in found]
