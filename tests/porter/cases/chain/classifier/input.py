"""A small classifier."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    """Three layers."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)  # wide
        self.fc2 = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        # first layer
        h = F.relu(self.fc1(x))
        # second layer
        h = self.fc2(h)  # no activation
        h = self.drop(h)
        return self.head(h)


def check():
    return Net()(torch.ones(2, 4))
