"""An Inception-style classifier (Szegedy et al., 2014) with an auxiliary head."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH_SIZE = 8
NUM_CLASSES = 6
STEPS = 10
LEARNING_RATE = 0.02
SEED = 3


class ConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x):
        x = self.conv(x)
        x = self.bn(x)
        return F.relu(x, inplace=True)


class Inception(nn.Module):
    def __init__(self, in_channels, ch1x1, ch3x3red, ch3x3, ch5x5red, ch5x5, pool_proj):
        super().__init__()
        self.branch1 = ConvBlock(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(
            ConvBlock(in_channels, ch3x3red, kernel_size=1),
            ConvBlock(ch3x3red, ch3x3, kernel_size=3, padding=1),
        )
        self.branch3 = nn.Sequential(
            ConvBlock(in_channels, ch5x5red, kernel_size=1),
            ConvBlock(ch5x5red, ch5x5, kernel_size=5, padding=2),
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            ConvBlock(in_channels, pool_proj, kernel_size=1),
        )

    def forward(self, x):
        branch1 = self.branch1(x)
        branch2 = self.branch2(x)
        branch3 = self.branch3(x)
        branch4 = self.branch4(x)
        return torch.cat([branch1, branch2, branch3, branch4], 1)


class Reduction(nn.Module):
    """Halves the resolution by a strided convolution beside a pooling."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = ConvBlock(in_channels, out_channels, kernel_size=3, stride=2)

    def forward(self, x):
        return torch.cat((self.conv(x), F.max_pool2d(x, 3, stride=2)), dim=1)


class AuxHead(nn.Module):
    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.conv = ConvBlock(in_channels, 16, kernel_size=1)
        self.fc = nn.Linear(16 * 4, num_classes)

    def forward(self, x):
        x = F.adaptive_avg_pool2d(x, (2, 2))
        x = self.conv(x)
        x = x.view(x.size(0), -1)
        x = F.dropout(x, 0.3, training=self.training)
        return self.fc(x)


class SmallInception(nn.Module):
    def __init__(self, num_classes=NUM_CLASSES, aux_logits=True):
        super().__init__()
        self.aux_logits = aux_logits
        self.stem = ConvBlock(3, 16, kernel_size=3, stride=2, padding=1)
        self.inception_a = Inception(16, 8, 8, 12, 4, 6, 6)
        self.reduce = Reduction(32, 24)
        self.inception_b = Inception(56, 16, 12, 24, 6, 12, 12)
        if aux_logits:
            self.aux = AuxHead(56, num_classes)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(64, num_classes)

    def forward(self, x):
        x = self.stem(x)
        x = self.inception_a(x)
        x = self.reduce(x)
        aux = None
        if self.aux_logits and self.training:
            aux = self.aux(x)
        x = self.inception_b(x)
        x = x.mean(dim=(2, 3))
        x = self.dropout(x)
        x = self.fc(x)
        return x, aux


def synthetic_batch(generator):
    labels = torch.randint(NUM_CLASSES, (BATCH_SIZE,), generator=generator)
    images = torch.randn(BATCH_SIZE, 3, 32, 32, generator=generator)
    # a class is a frequency of vertical stripes
    stripes = torch.sin(torch.arange(32.0).view(1, 32) * (labels.view(-1, 1) + 1) * 0.4)
    return images * 0.5 + stripes.view(BATCH_SIZE, 1, 1, 32), labels


if __name__ == "__main__":
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    model = SmallInception()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)

    for step in range(STEPS):
        images, labels = synthetic_batch(generator)
        logits, aux = model(images)
        loss = criterion(logits, labels) + 0.3 * criterion(aux, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scheduler.step()
        print("step %d loss %.6f" % (step + 1, loss.item()))

    model.eval()
    with torch.no_grad():
        images, labels = synthetic_batch(generator)
        logits, _ = model(images)
        print("accuracy %.3f" % (logits.argmax(1) == labels).float().mean().item())
