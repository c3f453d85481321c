import contextlib

import torch.nn as nn


class Swallows(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        with contextlib.suppress(RuntimeError):
            x = self.a(x)
        return x


class Forks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, log):
        with log.open():
            if x.sum() > 0:
                x = self.a(x)
        return self.b(x)


class Held(nn.Module):
    def __init__(self, lock):
        super().__init__()
        self.a, self.lock = nn.Linear(4, 4), lock

    def forward(self, x):
        with self.lock:
            return self.a(x)
