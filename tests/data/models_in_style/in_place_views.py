"""Updates in place on views: slices, `narrow`, `select`, masks, transposed memory, chunks."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        y = self.lin(x).transpose(1, 2).contiguous().transpose(1, 2)
        z = y.clone()
        a, b = z[..., :4], z[..., 4:]
        b.mul_(2).add_(1)
        z[:, 0] = 0
        z[:, 1, ::2] += a[:, 0].detach()
        z.narrow(1, 0, 1).copy_(y[:, -1:])
        z.select(2, 0).zero_()
        rows = z.reshape(-1, 8)
        rows[rows > 1] = 1.0
        z.transpose(1, 2)[:, 3] -= 0.5
        out = torch.empty_like(y)
        half = z.size(1) // 2
        out[:, :half], out[:, half:] = z[:, :half], y[:, half:]
        x[:, 0] = 7
        return self.drop(out), z, x, rows


def inputs(rows):
    return (torch.randn(4, 3, rows).permute(2, 1, 0),), {}


CHANGES = {}
