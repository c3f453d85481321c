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
        match self.a(x):
            case [row, other]:
                return row + other
        return x
