import torch
import torch.nn as nn
from flodl import FlowModule


class Inverted(FlowModule):
    def __init__(self, width, residual=True):
        super().__init__()
        self.residual = residual
        self.conv1 = nn.Linear(width, width)
        self.conv2 = nn.Linear(width, width)

    def flow(self, x):
        if self.residual:
            identity = x
        x = x.through(self.conv1).through(self.conv2)
        if self.residual:
            x = identity.also(x)
        return x


class InPlace(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def flow(self, x):
        shortcut = x
        x = x.through(self.conv)
        seen = [x]
        x += shortcut  # seen by `seen` as well
        y = x.through(self.conv)
        if self.training:
            y = x.also(y)
        return y, seen


class Layer(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = nn.Bilinear(width, width, width)

    def flow(self, x, memory):
        x = x.also(self.attn, memory)
        x = x.also(x.through(self.norm).through(self.attn, memory))
        return x.also(0.5 * x.through(self.norm))


def check():
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return Inverted(4)(x), Inverted(4, False)(x), InPlace(4)(x), Layer(4)(x, x * 2)
