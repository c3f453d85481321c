import torch
import torch.nn as nn
import torch.nn.functional as F


class Stages(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        self.cell = nn.Linear(4, 4)
        self.named = nn.ModuleDict({"h": nn.ModuleList([nn.Linear(4, 4)])})

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        for _ in range(2):
            x = torch.tanh(self.cell(x))
        for layer in self.named.h:  # nested
            x = layer(x)
        feats = []
        for i, block in enumerate(self.blocks[:-1]):
            x = F.relu(block(x))
            if i % 2 == 0:
                feats.append(x)
        return x, feats, [b(x) for b in self.blocks]


def check():
    torch.manual_seed(1)
    return Stages()(torch.randn(2, 4))
