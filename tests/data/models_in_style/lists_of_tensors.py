"""Containers of tensors through helpers: lists that grow, dicts updated, tuples sliced, generators, default lists."""

import torch
from torch import nn


def merge(feats, extra=()):
    return torch.cat([*feats, *extra], dim=-1)


def split_heads(x, n):
    return [h.contiguous() for h in x.chunk(n, dim=-1)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.laterals = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.scales = [1.0, 0.5, 0.25]
        self.extra = None
        self.out_indices, self.names = (0, 2), ["p0", "p1", "p2"]

    def top_down(self, laterals):
        for i in range(len(laterals) - 1, 0, -1):
            laterals[i - 1] = laterals[i - 1] + laterals[i] * self.scales[i]
        return laterals

    def named(self, feats, prefix=""):
        return {f"{prefix}{n}": f for n, f in zip(self.names, feats)}

    def forward(self, inputs, masks=None):
        if isinstance(inputs, dict):
            inputs = list(inputs.values())
        assert len(inputs) == len(self.laterals)
        laterals = [conv(x) for conv, x in zip(self.laterals, inputs)]
        laterals = self.top_down(laterals)
        if masks is not None:
            laterals = [f * m if m is not None else f for f, m in zip(laterals, masks)]
        laterals.extend([laterals[-1].relu()] if self.extra else [])
        laterals.insert(0, laterals[0] * 2)
        first, *middle, last = laterals
        outs = self.named(laterals, prefix="x")
        outs.update(merged=merge([f for i, f in enumerate(laterals) if i in self.out_indices], extra=middle[:1]))
        heads = split_heads(outs["merged"], 3)
        heads = sorted(heads, key=lambda h: float(h.sum()))
        total = sum(h.mean() for h in heads)
        best = max(heads, key=lambda h: h.max().item())
        outs["tuple"] = tuple(reversed(heads))[1:]
        return outs, total, best, first is laterals[0], last in (None,)


def inputs(rows):
    return ([torch.randn(rows, 4) for _ in range(3)],), {}


def second_inputs(rows):
    return ({k: torch.randn(rows, 4) for k in "abc"},), {"masks": [None, torch.ones(rows, 1), torch.rand(rows, 1)]}


CHANGES = {"indices": lambda net: setattr(net, "out_indices", (0, 1, 2)), "extra": lambda net: setattr(net, "extra", True),
           "scales": lambda net: net.scales.__setitem__(1, 3.0), "names": lambda net: net.names.pop()}
