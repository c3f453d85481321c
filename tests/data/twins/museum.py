"""Small models that between them use most of what a forward is made of."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvBlock(nn.Module):
    def __init__(self, in_channels=3, out_channels=4, dropout=0.2):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(out_channels, momentum=0.1)
        self.drop = nn.Dropout(dropout)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.conv(x)
        x = self.bn(x)
        x = F.relu(x)
        x = self.drop(x)
        return self.pool(x)


class Bottleneck(nn.Module):
    expansion = 2

    def __init__(self, in_planes=4, planes=4, downsample=True):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 1)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes * self.expansion, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(planes * self.expansion)
        nn.init.zeros_(self.bn2.weight)
        self.downsample = nn.Conv2d(in_planes, planes * self.expansion, 1) if downsample else None

    def forward(self, x):
        identity = x
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out = out + identity
        return F.relu(out)


class SqueezeExcite(nn.Module):
    def __init__(self, channels=8, reduction=2):
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // reduction)
        self.fc2 = nn.Linear(channels // reduction, channels)

    def forward(self, x):
        scale = x.mean(dim=(2, 3))
        scale = F.relu(self.fc1(scale))
        scale = torch.sigmoid(self.fc2(scale))
        return x * scale.unsqueeze(-1).unsqueeze(-1)


class Branches(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.a = nn.Conv2d(channels, 2, 1)
        self.b = nn.Conv2d(channels, 3, 3, padding=1)
        self.c = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(channels, 2, 1))

    def forward(self, x):
        a = self.a(x)
        b = self.b(x)
        c = self.c(x)
        return torch.cat([a, b, c], dim=1)


class Attention(nn.Module):
    def __init__(self, dim=8, heads=2, dropout=0.25):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask=None, need_weights=False):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(C // self.heads))
        if mask is not None:
            att = att.masked_fill(mask[:, None, None, :] == 0, -1e9)
        att = self.drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        y = self.out(y)
        if need_weights:
            return y, att
        return y, None


class Tagger(nn.Module):
    def __init__(self, vocab=11, dim=6, tie=True):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.position = nn.Parameter(torch.randn(1, 5, dim) * 0.1)
        self.norm = nn.LayerNorm(dim, eps=1e-5)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.position[:, : tokens.size(1)]
        x = self.norm(x)
        y, h = self.rnn(x)
        logits = self.head(y + x)
        return {"logits": F.log_softmax(logits, dim=-1), "state": h}


class Sampler(nn.Module):
    def __init__(self, dim=6, latent=3):
        super().__init__()
        self.mu = nn.Linear(dim, latent)
        self.logvar = nn.Linear(dim, latent)
        self.decoder = nn.Linear(latent, dim)

    def forward(self, x):
        mu = self.mu(x)
        logvar = self.logvar(x)
        if self.training:
            std = torch.exp(0.5 * logvar)
            z = mu + torch.randn_like(std) * std
        else:
            z = mu
        noise = torch.rand(x.size(0), 1)
        return torch.tanh(self.decoder(z)) + 0.1 * noise, mu, logvar


class Refiner(nn.Module):
    def __init__(self, dim=5, steps=3):
        super().__init__()
        self.steps = steps
        self.cell = nn.GRUCell(dim, dim)
        self.norm = nn.BatchNorm1d(dim)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(dim), persistent=False)

    def forward(self, x, h=None):
        if h is None:
            h = torch.zeros_like(x)
        for _ in range(self.steps):
            h = self.cell(x, h)
        if self.training:
            self.calls += 1
            self.mean.mul_(0.9).add_(0.1 * h.detach().mean(dim=0))
        return self.norm(h) + self.mean


class Affine(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim, dim))
        self.shift = nn.Parameter(torch.zeros(dim))
        self.temperature = nn.Parameter(torch.tensor(2.0), requires_grad=False)

    def forward(self, x):
        weight = (self.weight - self.weight.mean(dim=1, keepdim=True)) / self.weight.std()
        y = F.linear(x, weight, self.shift) / self.temperature
        y = y.clone()
        y[:, 0] = y[:, 1] * 2.0
        y += x
        return y.clamp(min=-1.5, max=2.5)


class InPlace(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        x.mul_(2.0)
        y = self.fc(x)
        return x, y, y[:, :2]


class TwoInputs(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.left = nn.Linear(dim, dim)
        self.right = nn.Linear(dim, dim)
        self.drop1 = nn.Dropout(0.5)
        self.drop2 = nn.Dropout(0.5)

    def forward(self, a, b):
        left = self.drop1(self.left(a))
        right = self.drop2(self.right(b))
        similarity = F.cosine_similarity(left, right.detach(), dim=-1)
        joint = torch.stack([left, right], dim=0)
        return similarity, joint.max(dim=0).values, (a - b).abs().sum(1)


class UpSkip(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.down = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.merge = nn.Conv2d(2 * channels, channels, 1)
        self.act = nn.LeakyReLU(0.1)

    def forward(self, x):
        low = self.act(self.down(x))
        low = self.up(low)
        low = F.pad(low, [0, x.size(3) - low.size(3), 0, x.size(2) - low.size(2)])
        x = self.merge(torch.cat([x, low], dim=1))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return torch.flatten(x, 1)


model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
