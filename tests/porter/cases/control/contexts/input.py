import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)

    @torch.no_grad()
    def target(self, x):
        return self.lin(x)

    @property
    def scale(self):
        return self.lin.weight.sum()

    def forward(self, x):
        with torch.no_grad():
            y = self.lin(x)
            y = F.relu(y)
            if y.dim() > 5:
                y = y + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.lin(x)
            with torch.autocast("cpu", enabled=False):
                z = self.lin(z.float())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            z = self.drop(z)
        with torch.set_grad_enabled(not self.training), torch.autograd.profiler.record_function("me"):
            w = self.lin(x)
        if torch.is_grad_enabled():
            w = w * 2
        return y + z + self.target(x) * self.scale + w


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    @torch.no_grad()
    def forward(self, x):
        return self.lin(x)


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        with torch.inference_mode():
            return self.lin(x)


class Repeats(nn.Module):
    """Draws the same numbers again when it is told to."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.state = None

    def forward(self, x, again=False):
        if not again:
            self.state = torch.get_rng_state()
            return self.drop(x)
        with torch.random.fork_rng(devices=[], enabled=True):
            torch.set_rng_state(self.state)
            return self.drop(x)


def check():
    net, teacher, whole = Net(), Teacher(), Whole()
    repeats = Repeats()
    results = []
    for _ in range(3):
        x = torch.rand(8)
        results += [repeats(x).tolist(), repeats(x, again=True).tolist(), torch.rand(1).item()]
    for turn in range(4):
        for model in (net, teacher, whole):
            model.train(turn % 2 == 0)
        x = torch.rand(2, 3)
        out = net(x)
        out.sum().backward()
        results += [out.tolist(), [item.grad.tolist() for item in net.parameters()]]
        out = teacher(x)
        results += [out.tolist(), out.requires_grad, whole(x).is_inference()]
        with torch.no_grad():
            results.append(net(x).tolist())
    return results
