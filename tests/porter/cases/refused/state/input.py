import logging
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.steps = 0

    def forward(self, x):
        del self.steps
        self.a.scale = 2
        x.note = "seen"
        self.register_buffer("seen", x)
        return self.a(x)


class Again(nn.Module):
    """What is set on a layer is read while the flow is recorded."""

    def __init__(self):
        super().__init__()
        self.block = nn.Linear(4, 4)

    def forward(self, x):
        self.block.height = x.size(0)
        return self.block(x) * self.block.height
