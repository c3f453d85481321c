import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import InplaceFunction, once_differentiable


class Sign(Function):
    """No model: a function with its own gradient."""

    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g


class SoftSign(Sign):
    @staticmethod
    def forward(ctx, x):
        return torch.tanh(x)


class Added(InplaceFunction):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return SoftSign.apply(self.layer(x))


def check():
    torch.manual_seed(1)
    return Net()(torch.randn(2, 4)).tolist()
