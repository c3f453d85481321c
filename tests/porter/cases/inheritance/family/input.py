import torch
import torch.nn as nn
import torch.nn.functional as F


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4)

    def features(self, x):
        return self.stem(x)


class Child(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.features(x)
        return self.head(x)


class Grandchild(Child):
    def features(self, x):
        x = self.stem(x)
        return F.relu(x)


def check():
    torch.manual_seed(1)
    return Child()(torch.ones(1, 4)), Grandchild()(torch.ones(1, 4))
