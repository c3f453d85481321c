import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, planes, downsample=None):
        super(BasicBlock, self).__init__()
        self.conv1 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x

        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)

        out = self.conv2(out)
        out = self.bn2(out)

        if self.downsample is not None:
            identity = self.downsample(x)

        out += identity
        out = self.relu(out)

        return out


class Unit(nn.Module):
    def __init__(self, planes, resize):
        super().__init__()
        self.resize = resize
        self.body = BasicBlock(planes)
        if resize:
            self.identity_conv = nn.Conv2d(planes, planes, 1)
        self.activ = nn.ReLU()

    def forward(self, x):
        if self.resize:
            identity = self.identity_conv(x)
        else:
            identity = x
        x = self.body(x)
        x = x + identity
        x = self.activ(x)
        return x


class Pre(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.drop(self.mix(self.norm(x)))
        return x


def check():
    torch.manual_seed(1)
    nets = [BasicBlock(2), BasicBlock(2, nn.Conv2d(2, 2, 1)), Unit(2, True), Unit(2, False)]
    x = torch.randn(2, 2, 4, 4)
    return [net(x.clone()) for net in nets], Pre(4)(x)
