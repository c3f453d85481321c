"""Fit a small residual MLP to a smooth function of eight variables."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class ResidualBlock(nn.Module):
    """Linear -> norm -> GELU -> linear, added to what came in."""

    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        h = self.norm(x)
        h = F.gelu(self.fc1(h))
        h = self.drop(self.fc2(h))
        return x + h


class ResidualMLP(nn.Module):
    def __init__(self, num_features=8, width=32, depth=3, num_outputs=1):
        super().__init__()
        self.stem = nn.Linear(num_features, width)
        self.blocks = nn.ModuleList([ResidualBlock(width) for _ in range(depth)])
        self.head = nn.Linear(width, num_outputs)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_data(num_rows, num_features, generator):
    x = torch.randn(num_rows, num_features, generator=generator)
    y = torch.sin(x[:, :4]).sum(dim=1, keepdim=True) + 0.5 * x[:, 4:5] * x[:, 5:6]
    return TensorDataset(x, y)


def train_one_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    return total / len(loader.dataset)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = sum(F.mse_loss(model(x), y, reduction="sum").item() for x, y in loader)
    return total / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(
        make_data(2048, 8, generator), batch_size=args.batch_size, shuffle=True
    )
    test_loader = DataLoader(make_data(512, 8, generator), batch_size=256)

    model = ResidualMLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    for epoch in range(1, args.epochs + 1):
        train_loss = train_one_epoch(model, train_loader, optimizer)
        test_loss = evaluate(model, test_loader)
        scheduler.step()
        print(f"epoch {epoch}: train loss {train_loss:.6f}, test loss {test_loss:.6f}")


if __name__ == "__main__":
    main()
