import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule, call, subflow


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)

    @subflow
    @torch.no_grad()
    def target(self, x):
        return x.through(self.lin)

    @property
    def scale(self):
        return self.lin.weight.sum()

    def flow(self, x):
        with torch.no_grad():
            y = x.through(self.lin).through(F.relu)
            if y.dim() > 5:
                y = y + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x.through(self.lin)
            with torch.autocast("cpu", enabled=False):
                z = z.float().through(self.lin)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            z = z.through(self.drop)
        with torch.set_grad_enabled(not self.training), torch.autograd.profiler.record_function("me"):
            w = x.through(self.lin)
        if torch.is_grad_enabled():
            w = w * 2
        return y + z + self.target(x) * self.scale + w


class Teacher(FlowModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    @torch.no_grad()
    def flow(self, x):
        return x.through(self.lin)


class Whole(FlowModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def flow(self, x):
        with torch.inference_mode():
            return x.through(self.lin)


class Repeats(FlowModule):
    """Draws the same numbers again when it is told to."""

    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.state = None

    def flow(self, x, again=False):
        if not again:
            self.state = call(torch.get_rng_state)
            return x.through(self.drop)
        with torch.random.fork_rng(devices=[], enabled=True):
            call(torch.set_rng_state, self.state)
            return x.through(self.drop)


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
