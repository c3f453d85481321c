import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule


class BasicBlock(FlowModule):
    expansion = 1

    def __init__(self, planes, downsample=None):
        super(BasicBlock, self).__init__()
        self.conv1 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def flow(self, x):
        identity = x

        out = (
            x.through(self.conv1)
            .through(self.bn1)
            .through(self.relu)
            .through(self.conv2)
            .through(self.bn2)
        )

        if self.downsample is not None:
            identity = x.through(self.downsample)

        out += identity
        return out.through(self.relu)


class Unit(FlowModule):
    def __init__(self, planes, resize):
        super().__init__()
        self.resize = resize
        self.body = BasicBlock(planes)
        if resize:
            self.identity_conv = nn.Conv2d(planes, planes, 1)
        self.activ = nn.ReLU()

    def flow(self, x):
        identity = x.through(self.identity_conv if self.resize else ())
        return (x.through(self.body) + identity).through(self.activ)


class Pre(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def flow(self, x):
        return x.also((self.norm, self.mix, self.drop))


def check():
    torch.manual_seed(1)
    nets = [BasicBlock(2), BasicBlock(2, nn.Conv2d(2, 2, 1)), Unit(2, True), Unit(2, False)]
    x = torch.randn(2, 2, 4, 4)
    return [net(x.clone()) for net in nets], Pre(4)(x)
