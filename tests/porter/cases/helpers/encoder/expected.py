import torch
import torch.nn as nn
import torch.nn.functional as F

from torch import Tensor
from flodl import Flow, FlowModule, subflow


def swish(x):
    return x * torch.sigmoid(x)


def scale(x, layer):
    return layer(x) * 2


class VAE(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 4)
        self.mu = nn.Linear(8, 2)
        self.up = nn.Linear(2, 8)
        self.weight = nn.Parameter(torch.ones(4))

    @subflow
    def encode(self, x: Flow) -> Flow:
        return x.through(self.fc1).through(F.relu).through(self.mu)

    @subflow
    def decode(self, z):
        return swish(z.through(self.up)).through(self.fc2).through(torch.sigmoid)

    @staticmethod
    def shift(x):
        return x - x.mean()

    def flow(self, x: Flow) -> tuple[Flow, Flow]:
        z = self.encode(x.view(-1, 4))
        y = self.decode(z + torch.randn_like(z))
        return (self.shift(y) * self.weight).through(scale, self.fc1), z

    def sample(self, count):
        return self.decode(torch.randn(count, 2))


def check():
    torch.manual_seed(1)
    net = VAE()
    return net(torch.randn(2, 4)), net.sample(3), net.encode(torch.ones(1, 4))
