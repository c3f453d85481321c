import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule, call


class Instances:
    def __init__(self, size):
        self.size = size

    def area(self):
        return self.boxes.sum() * self.size


class Block(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.H = 1
        self.hidden = None
        self.flag = False
        self.W = None

    def flow(self, x):
        if self.hidden is not None:
            x = x + self.hidden
        if self.flag:
            x = x * 2
        return x.through(self.a) * self.H


class Layer(FlowModule):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.Dropout(0.5)

    def flow(self, x, training=None):
        call(setattr, self.block, "flag", x.size(0) > 2)
        for block in self.blocks:
            H, W = x.size(0), x.size(1)
            (call(setattr, block, "H", H), call(setattr, block, "W", W))
            x = x.through(block)
        if training is not None:
            call(setattr, self.norm, "training", training)
        y = x.through(self.norm).through(self.block)
        call(setattr, self.block, "hidden", y.detach())
        return y


class Made(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def flow(self, x, graph):
        found = []
        for row in x.unbind(0):
            result = call(Instances, row.numel())
            result.boxes = row.through(self.a)
            result.scores = F.relu(result.boxes)
            found.append(result)
        graph.edges = x * 2
        graph.count = graph.count + 1
        return found, found[0].area() + graph.edges.sum()


class Momentum(FlowModule):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        for p in self.k.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def update(self):
        for one, two in zip(self.q.parameters(), self.k.parameters()):
            two.data = two.data * 0.9 + one.data * 0.1

    def flow(self, x):
        y = x.through(self.q)
        with torch.no_grad():
            self.update()
            z = x.through(self.k)
        return y, z


class Graph:
    pass


def check():
    layer, made, momentum = Layer(), Made(), Momentum()
    results = []
    graph = Graph()
    graph.count = 0
    for turn in range(4):
        x = torch.rand(2 + turn % 3, 4, requires_grad=True)
        y = layer(x, None if turn < 2 else turn == 2) if turn != 3 else layer(x[:2])
        if turn == 1:
            layer.block.hidden = None
        found, total = made(x, graph)
        q, k = momentum(x)
        (y.sum() + total + q.sum() + k.sum()).backward()
        results += [y.tolist(), total.item(), x.grad.tolist(), q.tolist(), k.tolist(), graph.count]
        results.append([graph.edges.tolist()])
        results += [[type(each).__name__, each.boxes.tolist(), each.scores.tolist(), each.size] for each in found]
        results.append([block.H for block in layer.blocks] + [layer.block.flag, layer.norm.training])
        layer.block.hidden = None if turn < 2 else layer.block.hidden[:2]
    return results
