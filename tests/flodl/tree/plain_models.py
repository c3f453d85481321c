"""Plain torch models in the style of torchvision: residual, a chain of convolutions, a transformer."""

import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(BasicBlock(8), BasicBlock(8))
        self.layer2 = nn.Sequential(BasicBlock(8), BasicBlock(8))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Vgg(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Linear(32, 8), nn.ReLU(True), nn.Dropout(), nn.Linear(8, 5)
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class EncoderLayer(nn.Module):
    """Attention that is written out; a keyword that its callers leave out chooses a mask."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, width)
        )

    def forward(self, x, mask=None):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        x = x + self.proj(F.softmax(scores, dim=-1) @ v)
        return x + self.mlp(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layer = nn.ModuleList(EncoderLayer(width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layer:
            x = layer(x)
        return x


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(torch.zeros(1, 1, 8))
        self.register_buffer("scale", torch.ones(1))
        self.encoder = Encoder(8, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, images):
        torch._assert(images.dim() == 4, "a batch of images")
        x = self.patch(images).flatten(2).transpose(1, 2) * self.scale
        token = self.token.expand(x.shape[0], -1, -1)
        x = self.encoder(torch.cat([token, x], dim=1))
        return self.head(x[:, 0])


class Wayward(nn.Module):
    """Asks for values, counts its calls in an attribute and in a list, and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))
        self.tail = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0
        self.notes = []

    def forward(self, x):
        self.calls += 1
        self.notes.append(torch.rand(1))
        self.stem.weight.data.mul_(2)
        x = self.stem(x)
        if x.sum() > 0:
            x = self.blocks[0](x)
        return self.tail(x)


MODELS = {"resnet": (ResNet, (2, 3, 8, 8)), "vgg": (Vgg, (2, 3, 8, 8)), "vit": (ViT, (2, 3, 8, 8))}
