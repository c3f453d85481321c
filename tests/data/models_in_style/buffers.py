"""Buffers of all kinds: `nn.Buffer`, `register_buffer`, not persistent, in lists, reshaped, read by helpers."""

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.original_inv_freq = self.inv_freq
        self.scaling = 1.0

    @torch.no_grad()
    def forward(self, x, position_ids):
        freqs = position_ids[:, :, None].float() * self.inv_freq[None, None, :]
        emb = torch.cat((freqs, freqs), dim=-1)
        return (emb.cos() * self.scaling).to(x.dtype), (emb.sin() * self.scaling).to(x.dtype)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rotary = Rotary()
        self.lin = nn.Linear(4, 4)
        self.grid = nn.Buffer(torch.arange(12.0))
        self.mask = nn.Buffer(torch.ones(3, 3).tril().bool(), persistent=False)
        self.register_buffer("steps", torch.tensor(0, dtype=torch.long))
        self.register_buffer("maybe", None)
        self.tables = [torch.arange(4.0), torch.ones(4)]
        self.named = {"a": torch.full((4,), 0.5), "b": (torch.ones(4), torch.zeros(4))}

    def bias(self):
        return self.grid.reshape(3, 4) * self.named["a"] + self.tables[0]

    def forward(self, x):
        self.steps += 1
        position_ids = torch.arange(x.size(1)).unsqueeze(0)
        cos, sin = self.rotary(x, position_ids)
        x = x * cos + rotate_half(x) * sin
        x = self.lin(x) + self.bias() + sum(self.named["b"])
        scores = (x @ x.transpose(1, 2)).masked_fill(~self.mask, float("-inf"))
        if self.maybe is not None:
            scores = scores + self.maybe
        return scores.softmax(-1) @ x, self.steps.clone()


def inputs(rows):
    return (torch.randn(rows, 3, 4),), {}


def tables(net):
    net.tables[0] = torch.full((4,), 3.0)
    net.named["a"] = torch.full((4,), 2.0)
    net.named["b"] = (torch.zeros(4), torch.ones(4), torch.ones(4))


CHANGES = {
    "tables": tables,
    "maybe": lambda net: setattr(net, "maybe", torch.tensor(0.25)),
    "grid": lambda net: net.grid.data.mul_(2),
    "rotary": lambda net: setattr(net.rotary, "inv_freq", net.rotary.inv_freq * 2),
    "scaling": lambda net: setattr(net.rotary, "scaling", 0.5),
}
