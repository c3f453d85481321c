import torch
import torch.nn as nn
import torch.nn.functional as F


class Concat(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 4)

    def forward(self, *parts):
        return self.mix(torch.cat(parts, dim=-1))


class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.inner = nn.Bilinear(4, 4, 4)

    def forward(self, x, *rest, scale=None, **options):
        for layer, value in zip(self.layers, rest):
            x = x + layer(value)
        if scale is not None:
            x = x * scale
        y = self.inner(x, *rest[:1])
        if "bias" in options:
            y = y + options["bias"]
        if options.get("relu", False):
            y = F.relu(y)
        return y, len(rest)


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.fn = Total()
        self.norm = nn.LayerNorm(4)
        self.concat = Concat()

    def forward(self, x, *args, **kwargs):
        y, n = self.fn(self.norm(x), *args, **kwargs)
        return self.concat(y, x) + n


def check():
    model = Wrapper()
    one, two = torch.ones(2, 4), torch.full((2, 4), 2.0)
    results = [
        model(torch.rand(2, 4), one),
        model(torch.rand(2, 4), one, two),
        model(torch.rand(2, 4), one, two, scale=0.5),
        model(torch.rand(2, 4), one, two, bias=one, relu=True),
        model(torch.rand(2, 4), one, two, relu=False),
        model.concat(one, two),
    ]
    sum(item.sum() for item in results).backward()
    grads = [item.grad for item in model.parameters() if item.grad is not None]
    return [item.tolist() for item in [*results, *grads]], sorted(model.state_dict())
