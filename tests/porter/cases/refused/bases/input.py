import torch
import torch.nn as nn
from somewhere import Backbone


class Nothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)


class Late(nn.LazyLinear):
    def forward(self, x):
        return super().forward(x)


class Foreign(Backbone):
    def forward(self, x):
        return self.head(x)


class Parent(nn.Module):
    def forward(self, x):
        torch.set_grad_enabled(True)
        return x


class Child(Parent):
    def forward(self, x):
        return torch.relu(x)


class Above(nn.Module):
    def forward(self, x):
        return super().forward(x)


def make():
    class Inner(nn.Module):
        def forward(self, x):
            return x + 1

    return Inner()


class Taken(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return self.flow(x)

    def flow(self, x):
        return self.lin(x)


class Assigned(nn.Module):
    def run(self, x):
        return x

    forward = run


@torch.jit.interface
class Interface(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass
