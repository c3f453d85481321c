import torch
import torch.nn as nn
import torch.nn.functional as F


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Conv2d(3, 4, 1)
        self.three_a = nn.Conv2d(3, 2, 1)
        self.three_b = nn.Conv2d(2, 4, 3, padding=1)
        self.pool = nn.Conv2d(3, 2, 1)

    def forward(self, x):
        one = self.one(x)

        three = self.three_a(x)
        three = self.three_b(three)

        pool = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
        pool = self.pool(pool)

        outputs = [one, three, pool]
        return torch.cat(outputs, 1)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(4, 4)
        self.gate = nn.Linear(4, 4)
        self.third = nn.Linear(4, 4)

    def forward(self, x):
        mixed = self.value(x) * torch.sigmoid(self.gate(x))
        total = self.value(mixed) + self.gate(mixed) + self.third(mixed)
        return torch.stack((self.value(total), self.gate(total)), dim=1)


def check():
    torch.manual_seed(1)
    return Inception()(torch.randn(2, 3, 5, 5)), Gated()(torch.randn(2, 4))
