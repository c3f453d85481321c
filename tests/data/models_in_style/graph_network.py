"""Message passing: scatter by index, an aggregation by name, edges that may be missing, cached norms."""

import torch
import torch.nn.functional as F
from torch import nn


def scatter(src, index, dim_size=None, reduce="sum"):
    if dim_size is None:
        dim_size = int(index.max()) + 1 if index.numel() > 0 else 0
    out = src.new_zeros(dim_size, src.size(-1))
    idx = index.view(-1, 1).expand_as(src)
    if reduce in ("sum", "add"):
        return out.scatter_add_(0, idx, src)
    if reduce == "mean":
        count = src.new_zeros(dim_size).scatter_add_(0, index, src.new_ones(src.size(0))).clamp(min=1)
        return out.scatter_add_(0, idx, src) / count.view(-1, 1)
    return out.scatter_reduce_(0, idx, src, reduce="amax", include_self=False)


class MessagePassing(nn.Module):
    def __init__(self, aggr="sum"):
        super().__init__()
        self.aggr = aggr

    def propagate(self, edge_index, size=None, **kwargs):
        x = kwargs["x"]
        j, i = edge_index[1], edge_index[0]
        out = self.message(x[j], kwargs.get("edge_weight"))
        out = scatter(out, i, dim_size=x.size(0) if size is None else size, reduce=self.aggr)
        return self.update(out)

    def message(self, x_j, edge_weight):
        return x_j if edge_weight is None else edge_weight.view(-1, 1) * x_j

    def update(self, out):
        return out


class Conv(MessagePassing):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.lin = nn.Linear(4, 4, bias=False)
        self.bias = nn.Parameter(torch.zeros(4))
        self.cached, self._cached_norm = False, None

    def norm(self, edge_index, n, edge_weight):
        if edge_weight is None:
            edge_weight = torch.ones(edge_index.size(1))
        deg = scatter(edge_weight.view(-1, 1), edge_index[0], n).view(-1)
        inv = deg.pow(-0.5)
        inv.masked_fill_(inv == float("inf"), 0)
        return inv[edge_index[0]] * edge_weight * inv[edge_index[1]]

    def forward(self, x, edge_index, edge_weight=None):
        cache = self._cached_norm
        if cache is None:
            weight = self.norm(edge_index, x.size(0), edge_weight)
            if self.cached:
                self._cached_norm = weight
        else:
            weight = cache
        return self.propagate(edge_index, x=self.lin(x), edge_weight=weight) + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([Conv(aggr=a) for a in ("sum", "mean", "max")])
        self.bns = nn.ModuleList([nn.BatchNorm1d(4) for _ in range(2)])

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        for i, conv in enumerate(self.convs[:-1]):
            x = F.dropout(F.relu(self.bns[i](conv(x, edge_index, edge_weight))), p=0.5, training=self.training)
        x = self.convs[-1](x, edge_index)
        batch = x.new_zeros(x.size(0), dtype=torch.long) if batch is None else batch
        return scatter(x, batch, reduce="mean"), x.log_softmax(dim=-1)


def inputs(rows):
    return (torch.randn(6, 4), torch.randint(0, 6, (2, rows * 3))), {}


def second_inputs(rows):
    batch = torch.arange(6) % rows
    return (torch.randn(6, 4), torch.randint(0, 6, (2, 4)), torch.rand(4)), {"batch": batch}


CHANGES = {"aggregation": lambda net: setattr(net.convs[1], "aggr", "max"), "cached": lambda net: setattr(net.convs[0], "cached", True)}
