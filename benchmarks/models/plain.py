"""The ten models of the training benchmark as plain PyTorch, every width a parameter."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import nn


def dense(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inside, outside), nn.GELU(), nn.LayerNorm(outside))


class Attending(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int, weights: bool = True) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.ff1 = nn.Linear(width, hidden)
        self.ff2 = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width)
        self.weights = weights

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended, _ = self.mha(x, x, x, need_weights=self.weights)
        x = self.norm1(x + attended)
        return self.norm2(x + self.ff2(F.gelu(self.ff1(x))))


class Transformer(nn.Module):
    def __init__(
        self, words: int, width: int, hidden: int, heads: int, layers: int, length: int,
        weights: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(1, length, width))
        self.layers = nn.ModuleList(
            Attending(width, hidden, heads, weights) for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embedding(x) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        sizes = [width, hidden, hidden, hidden, hidden]
        self.layers = nn.ModuleList(dense(a, b) for a, b in itertools.pairwise(sizes))
        self.head = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class ResidualTower(nn.Module):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.entry = nn.Linear(width, width)
        self.blocks = nn.ModuleList(dense(width, width) for _ in range(blocks))
        self.head = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Refining(nn.Module):
    """Encode, refine `times` times with one block, decode: feedback_fixed and iterative_refine."""

    def __init__(self, width: int, times: int) -> None:
        super().__init__()
        self.encoder = dense(width, width)
        self.refine = dense(width, width)
        self.decoder = nn.Linear(width, width)
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.encoder(x)
        for _ in range(self.times):
            x = x + self.refine(x)
        return self.decoder(x)


class GatedRouting(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.entry = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(dense(width, width) for _ in range(experts))
        self.head = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.entry(x)
        shares = F.softmax(self.router(x), dim=-1)
        found = torch.stack([expert(x) for expert in self.experts], dim=1)
        return self.head((shares.unsqueeze(-1) * found).sum(dim=1))


class GruSeq(nn.Module):
    def __init__(self, width: int, hidden: int, length: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, hidden)
        self.head = nn.Linear(hidden, width)
        self.length = length
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.size(0), self.hidden, device=x.device)
        for t in range(self.length):
            h = self.cell(x[:, t, :], h)
        return self.head(h)


class LstmSeq(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, 2, batch_first=True)
        self.head = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found, _ = self.lstm(x)
        return self.head(found[:, -1, :])


def down(inside: int, outside: int) -> list[nn.Module]:
    return [nn.Conv2d(inside, outside, 4, 2, 1), nn.BatchNorm2d(outside), nn.ReLU()]


def up(inside: int, outside: int) -> list[nn.Module]:
    return [nn.ConvTranspose2d(inside, outside, 4, 2, 1), nn.BatchNorm2d(outside), nn.ReLU()]


class ConvAutoencoder(nn.Module):
    def __init__(self, c1: int, c2: int, c3: int, c4: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(*down(3, c1), *down(c1, c2), *down(c2, c3), *down(c3, c4))
        last = nn.ConvTranspose2d(c1, 3, 4, 2, 1)
        self.decoder = nn.Sequential(*up(c4, c3), *up(c3, c2), *up(c2, c1), last, nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


def convolved(inside: int, outside: int) -> list[nn.Module]:
    return [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU()]


class ConvNet(nn.Module):
    def __init__(self, c1: int, c2: int, c3: int, c4: int, classes: int) -> None:
        super().__init__()
        pool = nn.MaxPool2d(2)
        self.features = nn.Sequential(
            *convolved(3, c1), pool, *convolved(c1, c2), pool, *convolved(c2, c3), pool,
            *convolved(c3, c4), pool, *convolved(c4, c4),
        )  # fmt: skip
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(c4, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))
