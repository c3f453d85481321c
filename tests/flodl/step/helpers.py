"""What the tests of the step share."""

import torch
from torch import nn


def net():
    torch.manual_seed(0)
    # No bias before the BatchNorm: its gradient would be rounding, which Adam makes large.
    return nn.Sequential(
        nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)
    )


def batches(count=6, rows=5):
    torch.manual_seed(1)
    return [(torch.randn(rows, 3), torch.randn(rows, 1)) for _ in range(count)]


def train_fn(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def replayed(graph):
    """Return a graph as a function of a list, as a compiled one is."""
    return lambda inputs: graph(*inputs)


class Replay:
    """Stands in for the compiler: runs the recorded operations one by one."""

    cached = False
    seconds = 0.0

    def __init__(self, program, quietly):
        self.program = program
        self.operations = sum(len(each.graph.graph.nodes) for each in program.regions)
        self.stopped = False

    def poll(self):
        return True

    def wait(self):
        pass

    def result(self):
        functions = [replayed(each.graph) for each in self.program.regions]
        chain = self.program.chain
        return functions[0] if chain is None else chain.linked(functions)

    def stop(self):
        self.stopped = True
