import torch
import torch.nn as nn


class Inverted(nn.Module):
    def __init__(self, width, residual=True):
        super().__init__()
        self.residual = residual
        self.conv1 = nn.Linear(width, width)
        self.conv2 = nn.Linear(width, width)

    def forward(self, x):
        if self.residual:
            identity = x
        x = self.conv1(x)
        x = self.conv2(x)
        if self.residual:
            x = x + identity
        return x


class InPlace(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Linear(width, width)

    def forward(self, x):
        shortcut = x
        x = self.conv(x)
        seen = [x]
        x += shortcut  # seen by `seen` as well
        y = self.conv(x)
        if self.training:
            y += x
        return y, seen


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = nn.Bilinear(width, width, width)

    def forward(self, x, memory):
        x = self.attn(x, memory) + x
        x = x + self.attn(self.norm(x), memory)
        return x + 0.5 * self.norm(x)


def check():
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return Inverted(4)(x), Inverted(4, False)(x), InPlace(4)(x), Layer(4)(x, x * 2)
