import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def widen(self, x):
        return F.relu(self.second(x))

    def forward(self, x, scale=1.0):
        x = self.first(x) * scale
        return self.widen(x)


class Residual(Block):
    def forward(self, x, scale=1.0):
        return x + super().forward(x, scale=scale)


class Dropped(Residual):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 2)

    def widen(self, x):
        return self.drop(super().widen(x))

    def forward(self, x, scale=2.0):
        # Everything below, then the head.
        x = super(Dropped, self).forward(self.drop(x), scale)  # and below
        x = F.relu(x)
        return self.head(x)


def check():
    results = []
    for make in (Block, Residual, Dropped):
        model = make()
        output = model(torch.rand(3, 4))
        output.sum().backward()
        results += [output.tolist(), [item.grad.tolist() for item in model.parameters()]]
        results += [model.eval()(torch.ones(3, 4), 3.0).tolist(), list(model.state_dict())]
    return results
