"""A small classifier."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import Flow, FlowModule


class Net(FlowModule):
    """Three layers."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)  # wide
        self.fc2 = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        self.drop = nn.Dropout(0.5)

    def flow(self, x: Flow) -> Flow:
        """Return scores."""
        # first layer
        return (
            x.through(self.fc1)
            .through(F.relu)
            # second layer
            .through(self.fc2)  # no activation
            .through(self.drop)
            .through(self.head)
        )


def check():
    return Net()(torch.ones(2, 4))
