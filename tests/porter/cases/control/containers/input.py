import torch
import torch.nn as nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, pair):
        left, right = pair
        return self.a(left), self.b(right)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.Sequential(Inner(), Inner())

    def forward(self, x):
        return self.steps(x)


class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair()
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
        self.named = nn.ModuleDict({"up": nn.Linear(4, 4)})

    def forward(self, x: torch.Tensor, others=None):
        left, right = self.pair((x, x * 2))
        outputs = {}
        for name, layer in self.named.items():
            outputs[name] = layer(left)
        feats = [head(t) for head, t in zip(self.heads, (left, right))]
        if others is not None:
            feats = feats + [self.heads[0](t) for t in others]
        outputs["sum"] = sum(feats)
        *first, last = feats
        return outputs, last, len(first)


def check():
    torch.manual_seed(1)
    net = Many()
    x = torch.randn(2, 4)
    return net(x), net(x, [x, x])
