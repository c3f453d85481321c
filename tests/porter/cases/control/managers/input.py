import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F

LOG = []


@contextlib.contextmanager
def noted(word, value=None):
    LOG.append(f"enter {word}")
    try:
        yield [word, value]
    finally:
        LOG.append(f"leave {word}")


class Lock:
    def __init__(self, depth):
        self.depth = depth

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, *exc):
        self.depth -= 1


class Graph:
    def __init__(self, edges):
        self.edges = edges

    @contextlib.contextmanager
    def local(self):
        before = self.edges
        try:
            yield self
        finally:
            self.edges = before


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.factor = 1

    @contextlib.contextmanager
    def scaled(self, by):
        before, self.factor = self.factor, by
        try:
            yield
        finally:
            self.factor = before

    def forward(self, x, graph):
        with noted("outer"), torch.no_grad():
            scale = self.b(x).mean()
        with noted("inner", x.size(0)) as held, self.scaled(x.sum()):
            word, size = held
            y = F.dropout(self.a(x), 0.5, self.training) * size * self.factor
        with graph.local() as inside:
            inside.edges = inside.edges * 2
            z = y * self.factor + graph.edges.sum()
        with torch.device("cpu"):
            y = y + torch.ones(4)
        with torch.enable_grad(), Lock(x.dim()) as lock:
            return z * scale + y * lock.depth


def check():
    net = Net()
    results = []
    for turn in range(3):
        net.train(turn != 1)
        x = torch.rand(2 + turn, 4, requires_grad=True)
        graph = Graph(torch.ones(3) + turn)
        out = net(x, graph)
        out.sum().backward()
        results += [out.tolist(), x.grad.tolist(), graph.edges.tolist()]
        try:
            net(torch.rand(2, 5), graph)
        except RuntimeError as error:
            results.append(str(error))
    return results, LOG, net.factor
