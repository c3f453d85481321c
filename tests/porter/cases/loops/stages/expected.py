import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule


class Stages(FlowModule):
    def __init__(self, depth=3):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        self.cell = nn.Linear(4, 4)
        self.named = nn.ModuleDict({"h": nn.ModuleList([nn.Linear(4, 4)])})

    def flow(self, x):
        x = x.through(self.stem)
        for block in self.blocks:
            x = x.through(block)
        for _ in range(2):
            x = x.through(self.cell).through(torch.tanh)
        for layer in self.named.h:  # nested
            x = x.through(layer)
        feats = []
        for i, block in enumerate(self.blocks[:-1]):
            x = x.through(block).through(F.relu)
            if i % 2 == 0:
                feats.append(x)
        return x, feats, [x.through(b) for b in self.blocks]


def check():
    torch.manual_seed(1)
    return Stages()(torch.randn(2, 4))
