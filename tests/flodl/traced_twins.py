"""Pairs of a flow and the plain module that it must equal, for tools that trace modules."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from flodl import Cat, FlowModule, subflow


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = x * x.size(0)
        return self.drop(self.fc2(x))


class MlpFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 4)
        self.drop = nn.Dropout(0.5)

    def flow(self, x):
        x = x.through(self.fc1).through(torch.relu)
        x = x * x.size(0)
        return x.through((self.fc2, self.drop))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.norm(self.stem(x))
        for layer in self.layers:
            x = x + F.relu(layer(x))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.head(x.view(x.size(0), -1))


class ConvFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def flow(self, x):
        x = x.through(self.stem).through(self.norm)
        for layer in self.layers:
            x = x.also((layer, F.relu))
        x = x.through(F.adaptive_avg_pool2d, 1)
        return x.view(x.size(0), -1).through(self.head)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(8, dim=2)
        q, k, v = (t.view(batch, length, 2, 4).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(4), -1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(y)


class AttentionFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def flow(self, x):
        batch, length, width = x.shape
        q, k, v = x.through(self.qkv).split(8, dim=2)
        q, k, v = (t.view(batch, length, 2, 4).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(4), -1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return x.also(y.through(self.out))


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x) if x.size(0) > 2 else self.b(x)
        while x.size(-1) > 1:
            x = x[..., 1:]
        return x.exp()


class SizedFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def flow(self, x):
        x = x.through(self.a) if (x.size(0) > 2).through(bool) else x.through(self.b)
        while x.size(-1) > 1:
            x = x[..., 1:]
        return x.exp()


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Mlp(), Mlp()])
        self.last = Sized()

    def middle(self, x):
        return torch.sigmoid(self.blocks[1](x))

    def forward(self, x):
        return self.last(self.middle(self.blocks[0](x)))


class NestedFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([MlpFlow(), MlpFlow()])
        self.last = SizedFlow()

    @subflow
    def middle(self, x):
        return x.through(self.blocks[1]).through(torch.sigmoid)

    def flow(self, x):
        return self.middle(x.through(self.blocks[0])).through(self.last)


class Keywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x, *more, mask=None, power=2):
        y = self.fc(x) * self.scale[: x.size(-1)]
        for each in more:
            y = y + each
        if mask is not None:
            y = y * mask
        return y.pow(power), {"in": x, "shape": [y.shape[-1]]}


class KeywordsFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0))

    def flow(self, x, *more, mask=None, power=2):
        y = x.through(self.fc) * self.scale[: x.size(-1)]
        for each in more:
            y = y + each
        if mask is not None:
            y = y * mask
        return y.pow(power), {"in": x, "shape": [y.shape[-1]]}


class Child(Sized):
    __factor = 3

    def forward(self, x):
        return super().forward(x) * self.__factor


class ChildFlow(SizedFlow):
    __factor = 3

    def flow(self, x):
        return super().flow(x) * self.__factor


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        if x.dim() == 3:
            x = x[0]
        a, b = self.a(x), self.b(x)
        y = torch.cat([a, b], dim=1)[:, 2:6]
        z = self.a(y) + self.b(y)
        for _ in range(2):
            z = self.b(z)
        rows = torch.stack(
            [self.a(z.select(1, i).unsqueeze(0).expand(4, -1).t()[:, :4]) for i in range(4)], 1
        )
        state = y * 0
        outputs = []
        for i in range(4):
            state = self.cell(rows.select(1, i), state)
            outputs.append(state)
        return torch.stack(outputs, 1), state + a, ["a", "b"]


class WordsFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.cell = nn.GRUCell(4, 4)

    def flow(self, x):
        if x.dim() == 3:
            x = x[0]
        branches = x.split(self.a, self.b)
        a, _ = branches
        y = branches.merge(Cat(dim=1))[:, 2:6].tag("y")
        z = y.also_with(skip=self.a, main=self.b)
        z = z.loop_body(self.b).for_n(2)

        def row(t):
            return self.a(t.unsqueeze(0).expand(4, -1).t()[:, :4])

        rows = z.map(row).along(1)
        outputs, state = rows.scan(self.cell, y * 0).along(1)
        return outputs, state.using("y").through(lambda s, y: s) + a, ["a", "b"]


def halved(x, layer):
    return layer(x) / 2


def halved_flow(x, layer):
    return x.through(layer) / 2


class Helpers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.gate = nn.Linear(4, 4), nn.Linear(4, 4)

    def twice(self, x, turns=2):
        return self.twice(self.a(x), turns - 1) if turns else x

    @staticmethod
    def added(x, layer):
        return x + layer(x)

    def forward(self, x):
        if x.size(0) > 9:
            x = x[:9]
        return halved(self.added(self.twice(x), self.gate), self.gate) + self.gate(x)


class HelpersFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.gate = nn.Linear(4, 4), nn.Linear(4, 4)

    def twice(self, x, turns=2):
        return self.twice(x.through(self.a), turns - 1) if turns else x

    @staticmethod
    def added(x, layer):
        return x.also(layer)

    def flow(self, x):
        if x.size(0) > 9:
            x = x[:9]
        return halved_flow(self.added(self.twice(x), self.gate), self.gate) + self.gate(x)


PAIRS = {
    "helpers": (Helpers, HelpersFlow, (3, 4)),
    "mlp": (Mlp, MlpFlow, (3, 4)),
    "conv": (Conv, ConvFlow, (2, 3, 6, 6)),
    "attention": (Attention, AttentionFlow, (2, 5, 8)),
    "sized": (Sized, SizedFlow, (3, 4)),
    "nested": (Nested, NestedFlow, (3, 4)),
    "keywords": (Keywords, KeywordsFlow, (3, 4)),
    "child": (Child, ChildFlow, (2, 4)),
    "words": (Words, WordsFlow, (3, 4)),
}
