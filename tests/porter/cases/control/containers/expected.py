import torch
import torch.nn as nn
from flodl import Flow, FlowModule, call


class Inner(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def flow(self, pair):
        left, right = pair
        return call(self.a, left), call(self.b, right)


class Pair(FlowModule):
    def __init__(self):
        super().__init__()
        self.steps = nn.Sequential(Inner(), Inner())

    def flow(self, x):
        return call(self.steps, x)


class Many(FlowModule):
    def __init__(self):
        super().__init__()
        self.pair = Pair()
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
        self.named = nn.ModuleDict({"up": nn.Linear(4, 4)})

    def flow(self, x: Flow, others=None):
        left, right = call(self.pair, (x, x * 2))
        outputs = {}
        for name, layer in self.named.items():
            outputs[name] = left.through(layer)
        feats = [t.through(head) for head, t in zip(self.heads, (left, right))]
        if others is not None:
            feats = feats + [t.through(self.heads[0]) for t in others]
        outputs["sum"] = sum(feats)
        *first, last = feats
        return outputs, last, len(first)


def check():
    torch.manual_seed(1)
    net = Many()
    x = torch.randn(2, 4)
    return net(x), net(x, [x, x])
