import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        seen = []

        def block(t):
            seen.append(t)
            return self.a(t)

        return checkpoint(block, x, use_reentrant=False), seen


class Fills(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        seen = {}
        return checkpoint(lambda t: seen.setdefault(0, self.a(t)), x, use_reentrant=False)
