import torch
import torch.nn as nn
from flodl import FlowModule, call, subflow


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.steps = 0

    def flow(self, x, more=None):
        while more:
            x = x.through(self.a)
            more = more - 1
        rest = self.rest(x)
        while call(bool, rest) and self.steps < 3:
            x, rest = x.through(self.b), self.rest(x)
            self.steps += 1
        return x

    @subflow
    def rest(self, x, limit=None):
        if call(bool, limit):
            return x.mean() > limit
        return x.sum() > 0


def check():
    torch.manual_seed(2)
    model, x = Net(), torch.randn(3, 4)
    found = [model(x), model(x, 2), model(-x, torch.tensor(1)), model(x * 9), model(x, 0)]
    return [item.tolist() for item in found]
