import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from flodl import FlowModule


class Block(nn.Sequential, FlowModule):  # no forward of its own
    def __init__(self, wide, narrow):
        super(Block, self).__init__(
            nn.Conv2d(wide, narrow, 3, padding=1), nn.BatchNorm2d(narrow), nn.ReLU()
        )


class Standardised(nn.Conv2d, FlowModule):
    """A convolution whose weights are standardised first."""

    def flow(self, x):
        weight = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        return self._conv_forward(x, weight, self.bias)


class Rectified(Standardised):
    def flow(self, x):
        return F.relu(super().flow(x))


class Dense(nn.Sequential, FlowModule):
    def __init__(self, width):
        super().__init__()
        self.add_module("norm", nn.BatchNorm2d(width))
        self.add_module("conv", nn.Conv2d(width, width, 1))

    def flow(self, x):
        return torch.cat([x, super().forward(x)], 1)


class Precise(_BatchNorm, FlowModule):
    def _check_input_dim(self, input):
        return

    def flow(self, x):
        return super().forward(x.double()).type(x.dtype)


class Table(nn.Embedding, FlowModule):
    def __init__(self, size, width):
        super().__init__(size, width, padding_idx=0)


class Stack(nn.ModuleList, FlowModule):
    def flow(self, x):
        for layer in self:
            x = x.through(layer)
        return x


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.block = Block(3, 4)
        self.conv = Rectified(4, 4, 3)
        self.dense = Dense(4)
        self.stack = Stack([nn.Conv2d(8, 2, 1), nn.Tanh()])
        self.norm = Precise(2)
        self.table = Table(5, 4)

    def flow(self, x, index):
        x = (
            x.through(self.block)
            .through(self.conv)
            .through(self.dense)
            .through(self.stack)
            .through(self.norm)
        )
        return x.mean(1) + index.through(self.table)


def check():
    torch.set_default_dtype(torch.float64)
    try:
        net = Net()
        results = []
        for mode in (True, False):
            net.train(mode)
            out = net(torch.rand(2, 3, 6, 6), torch.tensor([0, 3, 1, 2]))
            out.sum().backward()
            results += [out.tolist(), [item.grad.tolist() for item in net.parameters()]]
        net.norm.momentum = 0.5
        net.block.append(nn.Tanh())
        results.append(net.train()(torch.ones(1, 3, 6, 6), torch.arange(4)).tolist())
        results += [item.tolist() for item in net.buffers()] + list(net.state_dict())
        return results
    finally:
        torch.set_default_dtype(torch.float32)
