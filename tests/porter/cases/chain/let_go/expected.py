import torch
import torch.nn as nn
from flodl import FlowModule, call, subflow


class Frees(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def flow(self, x, extra=None):
        y = x.through(self.a).through(self.b)
        # there is not much memory
        parts = {"z": y.through(self.a), "y": y}
        if extra is not None:
            parts["extra"] = extra * 2
            del parts["z"]
        else:
            del extra
        for part in list(parts.values()):
            y = y.through(self.b) + part
        # the last one
        return self.names(parts), y.through(self.b), parts

    @subflow
    def names(self, parts):
        return len(call(sorted, parts))


class Between(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def flow(self, x, y):
        low = x.through(self.a)
        rows = y.size(0)  # of the other one
        return (
            low.through(self.a)
            # memory again
            .view(rows, 2, 2)
        )


def check():
    torch.manual_seed(1)
    between = Between()(torch.ones(2, 4), torch.ones(2, 3))
    net = Frees()
    x = torch.randn(2, 4)
    return net(x), net(x), net(x, x), between
