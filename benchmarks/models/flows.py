"""The ten models as flow graphs: the same parameters under the same names, `flow` instead of `forward`."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models.plain import convolved, dense, down, up
from flodl import Flow, FlowModule


class Attending(FlowModule):
    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.ff1 = nn.Linear(width, hidden)
        self.ff2 = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width)

    def flow(self, x: Flow) -> Flow:
        # Nobody reads the weights of the attention: they need not be made.
        attended, _ = x.through(self.mha, x, x, need_weights=False)
        x = (x + attended).through(self.norm1)
        return x.also((self.ff1, F.gelu, self.ff2)).through(self.norm2)


class Transformer(FlowModule):
    def __init__(
        self, words: int, width: int, hidden: int, heads: int, layers: int, length: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.randn(1, length, width))
        self.layers = nn.ModuleList(Attending(width, hidden, heads) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.embedding) + self.places
        return x.through(self.layers).through(self.head)


class Mlp(FlowModule):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        sizes = [width, hidden, hidden, hidden, hidden]
        self.layers = nn.ModuleList(dense(a, b) for a, b in itertools.pairwise(sizes))
        self.head = nn.Linear(hidden, width)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.layers).through(self.head)


class ResidualTower(FlowModule):
    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.entry = nn.Linear(width, width)
        self.blocks = nn.ModuleList(dense(width, width) for _ in range(blocks))
        self.head = nn.Linear(width, width)

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.entry)
        for block in self.blocks:
            x = x.also(block)
        return x.through(self.head)


class Refining(FlowModule):
    def __init__(self, width: int, times: int) -> None:
        super().__init__()
        self.encoder = dense(width, width)
        self.refine = dense(width, width)
        self.decoder = nn.Linear(width, width)
        self.times = times

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.encoder)
        for _ in range(self.times):
            x = x.also(self.refine)
        return x.through(self.decoder)


class GatedRouting(FlowModule):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.entry = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(dense(width, width) for _ in range(experts))
        self.head = nn.Linear(width, width)

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.entry)
        shares = x.through(self.router).through(F.softmax, dim=-1)
        found = torch.stack([x.through(expert) for expert in self.experts], dim=1)
        return (shares.unsqueeze(-1) * found).sum(dim=1).through(self.head)


class GruSeq(FlowModule):
    def __init__(self, width: int, hidden: int, length: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, hidden)
        self.head = nn.Linear(hidden, width)
        self.length = length
        self.hidden = hidden

    def flow(self, x: Flow) -> Flow:
        h = torch.zeros(x.size(0), self.hidden, device=x.device)
        for t in range(self.length):
            h = x[:, t, :].through(self.cell, h)
        return h.through(self.head)


class LstmSeq(FlowModule):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, 2, batch_first=True)
        self.head = nn.Linear(hidden, width)

    def flow(self, x: Flow) -> Flow:
        found, _ = x.through(self.lstm)
        return found[:, -1, :].through(self.head)


class ConvAutoencoder(FlowModule):
    def __init__(self, c1: int, c2: int, c3: int, c4: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(*down(3, c1), *down(c1, c2), *down(c2, c3), *down(c3, c4))
        last = nn.ConvTranspose2d(c1, 3, 4, 2, 1)
        self.decoder = nn.Sequential(*up(c4, c3), *up(c3, c2), *up(c2, c1), last, nn.Tanh())

    def flow(self, x: Flow) -> Flow:
        return x.through(self.encoder).through(self.decoder)


class ConvNet(FlowModule):
    def __init__(self, c1: int, c2: int, c3: int, c4: int, classes: int) -> None:
        super().__init__()
        pool = nn.MaxPool2d(2)
        self.features = nn.Sequential(
            *convolved(3, c1), pool, *convolved(c1, c2), pool, *convolved(c2, c3), pool,
            *convolved(c3, c4), pool, *convolved(c4, c4),
        )  # fmt: skip
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(c4, classes)

    def flow(self, x: Flow) -> Flow:
        return x.through((self.features, self.pool)).flatten(1).through(self.head)
