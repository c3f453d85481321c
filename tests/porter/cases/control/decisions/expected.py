import io
import logging
import math
import random

import numpy as np
import torch
import torch.nn as nn
from flodl import FlowModule, call

logger = logging.getLogger(__name__)
quiet = io.StringIO()


class Decides(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(1))

    def flow(self, x, weight=None):
        y = x.through(self.a)
        if (y.sum() > 0).through(bool):
            y = y.through(self.b)
        elif weight is not None and (weight.sum() > 0).through(bool) and not (y > 3).any().through(bool):
            y = y * weight
        n = y.detach().abs().sum().through(int)
        for i in range(n % 3):
            y = y.also(y.through(self.b) * i)
        scale = y.abs().max().through(torch.Tensor.item)
        if scale > 2:
            y = y / scale
        while (y.norm() > 1).through(bool):
            y = y * 0.7
        z = y if (y.mean() < 0).through(bool) else -y
        sizes = (x > 0).sum(1).through(torch.Tensor.tolist)
        parts = [row[:size].sum() for row, size in zip(y, sizes)]
        array = (y.detach().cpu().through(torch.Tensor.numpy).through(np.abs) + 1).through(np.log)
        y = y.also(array.through(torch.from_numpy))
        k = (y.detach().abs().sum() + 0.5).through(math.ceil)
        width = call(np.sqrt, x.size(1))
        call(print, "seen", x.shape, file=quiet)
        call(logger.info, "a call")
        assert (y == y).all().through(bool), call(lambda y: f"bad {y}", y)
        if call(bool, self.seen == 0):
            self.seen += 1
        return z + torch.stack(parts).sum() + k * width, y.detach().sum().through(float)


class Drops(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.p = 0.5

    def flow(self, x):
        if self.training and call(random.random) < self.p:
            return x.through(self.a)
        return x * call(np.random.rand) + call(random.randint, 1, 3)


def check():
    quiet.truncate(0)
    random.seed(0)
    np.random.seed(0)
    decides, drops = Decides(), Drops()
    results = []
    for turn in range(12):
        for model in (decides, drops):
            model.train(turn % 3 > 0)
        x = torch.randn(2, 3) * (1 + turn % 4)
        out, total = decides(x, torch.ones(3) if turn % 2 else None)
        out.sum().backward()
        results += [out.tolist(), total, decides.seen.item(), drops(x).tolist()]
        results.append([None if item.grad is None else item.grad.tolist()
                        for item in decides.parameters()])  # fmt: skip
    return [*results, quiet.getvalue(), random.random(), np.random.rand()]
