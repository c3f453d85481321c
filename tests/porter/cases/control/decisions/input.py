import io
import logging
import math
import random

import numpy as np
import torch
import torch.nn as nn

logger = logging.getLogger(__name__)
quiet = io.StringIO()


class Decides(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, weight=None):
        y = self.a(x)
        if y.sum() > 0:
            y = self.b(y)
        elif weight is not None and weight.sum() > 0 and not (y > 3).any():
            y = y * weight
        n = int(y.detach().abs().sum())
        for i in range(n % 3):
            y = y + self.b(y) * i
        scale = y.abs().max().item()
        if scale > 2:
            y = y / scale
        while y.norm() > 1:
            y = y * 0.7
        z = y if y.mean() < 0 else -y
        sizes = (x > 0).sum(1).tolist()
        parts = [row[:size].sum() for row, size in zip(y, sizes)]
        array = y.detach().cpu().numpy()
        array = np.log(np.abs(array) + 1)
        y = y + torch.from_numpy(array)
        k = math.ceil(y.detach().abs().sum() + 0.5)
        width = np.sqrt(x.size(1))
        print("seen", x.shape, file=quiet)
        logger.info("a call")
        assert (y == y).all(), f"bad {y}"
        if self.seen == 0:
            self.seen += 1
        return z + torch.stack(parts).sum() + k * width, float(y.detach().sum())


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.p = 0.5

    def forward(self, x):
        if self.training and random.random() < self.p:
            return self.a(x)
        return x * np.random.rand() + random.randint(1, 3)


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
