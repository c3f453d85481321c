import torch
from torch import nn


class Attention(nn.Module):
    """One projection for all, where query and key are one tensor."""

    def __init__(self):
        super().__init__()
        self.all = nn.Linear(4, 8)
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, query, key=None, mask=None):
        if query is key:
            q, k = self.all(query).chunk(2, -1)
            return q * k
        if mask is key:
            return self.query(query)
        assert key is not mask and mask is not query
        return self.query(query) * self.key(key)


class Mixer(nn.Module):
    def forward(self, query, key, value):
        assert query is key and key is value
        y = query.flip(0)
        return y + value


def check():
    torch.manual_seed(1)
    model, x, y = Attention(), torch.randn(2, 4), torch.randn(2, 4)
    found = [model(x, x), model(x, y), model(x), model(x, y, x + 1), model(x, x), Mixer()(x, x, x)]
    try:
        Mixer()(x, y, y)
    except AssertionError:
        found.append(x)
    return [item.tolist() for item in found]
