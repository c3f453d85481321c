"""Pairs of a flow and the plain PyTorch module that it must equal, one pair per construct."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from flodl import Add, Cat, Flow, FlowBuilder, FlowModule, Max, Mean, Mul, Stack, call, subflow


@dataclass(frozen=True)
class Pair:
    name: str
    flow: Callable[[], nn.Module]
    twin: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]


def vectors() -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, 8),)


def images() -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 3, 8, 8),)


def tokens() -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, 11, (2, 6)),)


class ChainTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Sequential(nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.3))
        self.c = nn.Linear(8, 2)

    def forward(self, x):
        return self.c(torch.relu(self.b(self.a(x))))


class ChainFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Sequential(nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.3))
        self.c = nn.Linear(8, 2)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.a).through(self.b).through((torch.relu, self.c))


class BlockTwin(nn.Module):
    def __init__(self, width=3, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(width, 4, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)
        self.shortcut = nn.Sequential(
            nn.Conv2d(width, 4, 1, stride, bias=False), nn.BatchNorm2d(4)
        )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class BlockFlow(FlowModule):
    def __init__(self, width=3, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(width, 4, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)
        self.shortcut = nn.Sequential(
            nn.Conv2d(width, 4, 1, stride, bias=False), nn.BatchNorm2d(4)
        )

    def flow(self, x: Flow) -> Flow:
        main = (self.conv1, self.bn1, F.relu, self.conv2, self.bn2)
        return x.also_with(main=main, skip=self.shortcut).through(F.relu)


class BranchesTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        a, b, c = self.a(x), torch.tanh(self.b(x)), self.c(x)
        mean = (a + b + c) / 3
        product = a * b * c
        largest = torch.maximum(torch.maximum(a, b), c)
        stacked = torch.stack([a, b, c], dim=1).sum(1)
        both = torch.cat([mean, product], dim=1)
        return both, a + b + c, largest * stacked


class BranchesFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def flow(self, x: Flow) -> tuple[Flow, ...]:
        branches = x.split(self.a, (self.b, torch.tanh), self.c).tag_group("branch")
        both = torch.cat([branches.merge(Mean()), branches.merge(Mul)], dim=1)
        largest = branches.merge(Max())
        return both, branches.merge(Add()), largest * branches.merge(Stack(dim=1)).sum(1)


class AttentionTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.place = nn.Parameter(torch.randn(1, 16, 8) * 0.1)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 11)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, ids):
        B, T = ids.size()
        x = self.embed(ids) + self.place[:, :T]
        q, k, v = self.qkv(x).split(8, dim=2)
        q, k, v = (t.view(B, T, 2, 4).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.dropout(F.softmax(att, dim=-1), 0.1, self.training)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, -1)
        return self.out(x + y)


class AttentionFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.place = nn.Parameter(torch.randn(1, 16, 8) * 0.1)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 11)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def flow(self, ids: Flow) -> Flow:
        B, T = ids.size()
        x = ids.through(self.embed) + self.place[:, :T]
        q, k, v = x.through(self.qkv).split(8, dim=2)
        q, k, v = (t.view(B, T, 2, 4).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.dropout(F.softmax(att, dim=-1), 0.1, self.training)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, -1)
        return (x + y).through(self.out)


class RecurrentTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.scale = nn.Parameter(torch.ones(6))
        self.cell = nn.Linear(6, 6)

    def forward(self, ids, mask=None):
        out, (h, c) = self.lstm(self.embed(ids))
        if mask is not None:
            out = out * mask.unsqueeze(-1)
        for _ in range(3):
            out = self.cell(out)
        return {"out": out * self.scale, "state": [h, c]}


class RecurrentFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.scale = nn.Parameter(torch.ones(6))
        self.cell = nn.Linear(6, 6)

    def flow(self, ids: Flow, mask: Flow | None = None) -> dict[str, object]:
        out, (h, c) = ids.through(self.embed).through(self.lstm)
        if mask is not None:
            out = out * mask.unsqueeze(-1)
        out = out.loop_body(self.cell).for_n(3)
        return {"out": out * self.scale, "state": [h, c]}


class Pieces(NamedTuple):
    head: torch.Tensor
    rest: torch.Tensor


class NestedTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([ChainTwin(), nn.Sequential(nn.Linear(2, 8), ChainTwin())])
        self.shared = nn.Linear(2, 2)
        self.again = self.shared

    def features(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        y = self.features(x)
        return Pieces(self.again(torch.sigmoid(self.shared(y))), y[:, :1] ** 2)


class NestedFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([ChainFlow(), nn.Sequential(nn.Linear(2, 8), ChainFlow())])
        self.shared = nn.Linear(2, 2)
        self.again = self.shared

    @subflow
    def features(self, x: Flow) -> Flow:
        return x.through(self.blocks)

    def flow(self, x: Flow) -> Pieces:
        y = self.features(x)
        head = y.through((self.shared, torch.sigmoid, self.again))
        return Pieces(head, y[:, :1] ** 2)


class InPlaceTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        y = self.fc(x)
        z = y.clone()
        z[:, 0] = 1.0
        z += y
        z.mul_(2.0)
        self.steps.add_(1)
        noise = torch.rand(x.size(0), 1, device=x.device, dtype=x.dtype)
        return z + noise * torch.zeros_like(y).normal_()


class InPlaceFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("steps", torch.zeros(()))

    def flow(self, x: Flow) -> Flow:
        y = x.through(self.fc)
        z = y.clone()
        z[:, 0] = 1.0
        z += y
        z.mul_(2.0)
        self.steps.add_(1)
        noise = torch.rand(x.size(0), 1, device=x.device, dtype=x.dtype)
        return z + noise * torch.zeros_like(y).normal_()


class ParameterTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 8))
        self.net = nn.Linear(8, 8)
        self.seed = nn.Parameter(torch.randn(1, 8))

    def forward(self, x):
        weight = (self.weight - self.weight.mean(1, keepdim=True)) / self.weight.std(
            1, keepdim=True
        )
        start = self.net(self.seed).expand(x.size(0), -1)
        return F.linear(x + start, weight) - 2 * self.net.weight.sum()


class ParameterFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 8))
        self.net = nn.Linear(8, 8)
        self.seed = nn.Parameter(torch.randn(1, 8))

    def flow(self, x: Flow) -> Flow:
        weight = (self.weight - self.weight.mean(1, keepdim=True)) / self.weight.std(
            1, keepdim=True
        )
        start = call(self.net, self.seed).expand(x.size(0), -1)
        return F.linear(x + start, weight) - 2 * self.net.weight.sum()


class ShapesTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        if x.dim() == 3:
            x = x.unsqueeze(0)
        y = self.conv(x)
        while y.size(2) > 3:
            y = F.max_pool2d(y, 2)
        parts = [part.mean() for part in y.unbind(1)]
        return y.view(y.size(0), -1), torch.stack(parts), F.interpolate(y, size=x.shape[2:])


class ShapesFlow(FlowModule):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def flow(self, x: Flow) -> tuple[Flow, ...]:
        if x.dim() == 3:
            x = x.unsqueeze(0)
        y = x.through(self.conv)
        while y.size(2) > 3:
            y = F.max_pool2d(y, 2)
        parts = [part.mean() for part in y.unbind(1)]
        return y.view(y.size(0), -1), torch.stack(parts), F.interpolate(y, size=x.shape[2:])


class BuilderTwin(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.linear_1 = nn.Linear(8, 8)
        self.linear_2, self.linear_3 = nn.Linear(8, 4), nn.Linear(8, 4)
        self.bilinear_1 = nn.Bilinear(8, 8, 8)
        self.aux = nn.Linear(8, 2)
        self.linear_4 = nn.Linear(8, 8)

    def forward(self, x):
        stem = self.stem(x)
        h = stem + self.linear_1(stem)
        h = torch.cat([self.linear_2(h), torch.relu(self.linear_3(h))], dim=1)
        h = self.bilinear_1(h, stem)
        self.aux(h)
        for _ in range(2):
            h = self.linear_4(h)
        return h


def built() -> nn.Module:
    return (
        FlowBuilder.from_(nn.Linear(8, 8))
        .tag("stem")
        .also(nn.Linear(8, 8))
        .split(nn.Linear(8, 4), (nn.Linear(8, 4), torch.relu))
        .merge(Cat(dim=1))
        .through(nn.Bilinear(8, 8, 8))
        .using("stem")
        .fork(nn.Linear(8, 2))
        .tag("aux")
        .loop_body(nn.Linear(8, 8))
        .for_n(2)
        .label("built")
        .build()
    )


PAIRS = (
    Pair("chain", ChainFlow, ChainTwin, vectors),
    Pair("block", BlockFlow, BlockTwin, images),
    Pair("branches", BranchesFlow, BranchesTwin, vectors),
    Pair("attention", AttentionFlow, AttentionTwin, tokens),
    Pair("recurrent", RecurrentFlow, RecurrentTwin, tokens),
    Pair("nested", NestedFlow, NestedTwin, vectors),
    Pair("in-place", InPlaceFlow, InPlaceTwin, vectors),
    Pair("parameters", ParameterFlow, ParameterTwin, vectors),
    Pair("shapes", ShapesFlow, ShapesTwin, images),
    Pair("builder", built, BuilderTwin, vectors),
)
