import torch
from torch import nn
from flodl import FlowModule, call


class Chunks(FlowModule):
    def __init__(self, whole=False):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.whole = whole

    @staticmethod
    def chunk(hidden, size, whole: bool = False):
        if call(bool, whole):
            return hidden
        count = torch.div(hidden.size(1), size, rounding_mode="trunc")
        out = torch.zeros(hidden.size(0), count, size)
        for index in range(call(int, count)):
            out[:, index] = hidden[:, index * size : (index + 1) * size].sum(-1)
        return out

    def flow(self, x):
        return self.chunk(x.through(self.linear), 2, getattr(self, "whole", False))


def check():
    model = Chunks()
    results = []
    for turn in range(3):
        x = torch.rand(2, 4 + turn, 4, requires_grad=True)
        y = model(x)
        y.sum().backward()
        results += [y.tolist(), x.grad.tolist(), Chunks.chunk(x, 3).tolist()]
    model.whole = True
    results.append(model(torch.rand(1, 4, 4)).tolist())
    return results
