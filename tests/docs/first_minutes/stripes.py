"""My own script: which way do the stripes of a picture run?"""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return x + F.relu(self.norm(self.conv(x)))


class Stripes(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def pictures(count):
    labels = torch.arange(count) % 2
    rows = (torch.arange(8) % 2).float().expand(count, 1, 8, 8)
    turned = torch.where(labels.view(-1, 1, 1, 1) == 0, rows, rows.transpose(2, 3))
    return turned + 0.1 * torch.randn(count, 1, 8, 8), labels


def main():
    torch.manual_seed(0)
    model = Stripes()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    images, labels = pictures(64)
    for epoch in range(3):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
