import torch
from torch import nn
from flodl import FlowModule, call


class Attention(FlowModule):
    """One projection for all, where query and key are one tensor."""

    def __init__(self):
        super().__init__()
        self.all = nn.Linear(4, 8)
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def flow(self, query, key=None, mask=None):
        if query.through(lambda a, b: a is b, key):
            q, k = query.through(self.all).chunk(2, -1)
            return q * k
        if call(lambda a, b: a is b, mask, key):
            return query.through(self.query)
        assert call(lambda a, b: a is not b, key, mask) and call(lambda a, b: a is not b, mask, query)
        return query.through(self.query) * call(self.key, key)


class Mixer(FlowModule):
    def flow(self, query, key, value):
        assert query.through(lambda a, b: a is b, key) and key.through(lambda a, b: a is b, value)
        return query.flip(0) + value


def check():
    torch.manual_seed(1)
    model, x, y = Attention(), torch.randn(2, 4), torch.randn(2, 4)
    found = [model(x, x), model(x, y), model(x), model(x, y, x + 1), model(x, x), Mixer()(x, x, x)]
    try:
        Mixer()(x, y, y)
    except AssertionError:
        found.append(x)
    return [item.tolist() for item in found]
