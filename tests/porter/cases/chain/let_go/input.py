import torch
import torch.nn as nn


class Frees(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x, extra=None):
        h = self.a(x)
        y = self.b(h)
        del h, x  # there is not much memory
        z = self.a(y)
        parts = {"z": z, "y": y}
        if extra is not None:
            parts["extra"] = extra * 2
            del parts["z"]
        else:
            del extra
        for part in list(parts.values()):
            y = self.b(y) + part
            del part
        # the last one
        del z
        return self.names(parts), self.b(y), parts

    def names(self, parts):
        found = sorted(parts)
        count = len(found)
        del found
        return count


class Between(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x, y):
        low = self.a(x)
        rows = y.size(0)  # of the other one
        high = self.a(low)
        del low
        # memory again
        return high.view(rows, 2, 2)


def check():
    torch.manual_seed(1)
    between = Between()(torch.ones(2, 4), torch.ones(2, 3))
    net = Frees()
    x = torch.randn(2, 4)
    return net(x), net(x), net(x, x), between
