import logging
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def bool(value):
    return value is True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.steps = 0

    def forward(self, x):
        if 0 < x.sum() < 1:
            return self.a(x)
        if self.a.weight:
            return self.b(x)
        return x
