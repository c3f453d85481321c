import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule, subflow


class Base(FlowModule):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4)

    @subflow
    def features(self, x):
        return x.through(self.stem)


class Child(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def flow(self, x):
        return self.features(x).through(self.head)


class Grandchild(Child):
    @subflow
    def features(self, x):
        return x.through(self.stem).through(F.relu)


def check():
    torch.manual_seed(1)
    return Child()(torch.ones(1, 4)), Grandchild()(torch.ones(1, 4))
