import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.size()
        each = width // self.heads

        def shape(x):
            """Split the heads."""
            return x.view(batch, length, self.heads, each).transpose(1, 2)

        def unshape(t, last=False):
            t = t.transpose(1, 2).reshape(batch, length, width)
            # The last step only.
            return self.out(F.relu(t)) if last else t

        q, k = shape(self.q(x)), shape(self.k(x))
        weights = torch.softmax(q @ k.transpose(2, 3), -1)
        if mask is not None:
            weights = weights * mask
        return unshape(weights @ q, last=True) + unshape(k)


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def descend(self, x, level):
        if level == 0:
            return x
        inner = self.descend(F.relu(self.steps[level - 1](x)), level - 1)
        return x + inner

    def forward(self, x):
        return self.descend(x, len(self.steps))


def check():
    attention, pyramid = Attention(), Pyramid()
    results = []
    for mask in (None, torch.ones(3), None):
        out = attention(torch.rand(2, 3, 8), mask)
        deep = pyramid(torch.rand(2, 4))
        (out.sum() + deep.sum()).backward()
        results += [out.tolist(), deep.tolist()]
        results.append([item.grad.tolist() for item in attention.parameters()])
    return results
