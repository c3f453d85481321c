"""U-Net (Ronneberger et al., 2015) that segments discs in noisy images."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class DoubleConv(nn.Module):
    """(convolution => BN => ReLU) * 2"""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    """Halve the resolution, then double conv."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x):
        x = self.pool(x)
        return self.conv(x)


class Up(nn.Module):
    """Upscale, pad to the skip's size, concatenate, then double conv."""

    def __init__(self, in_channels, out_channels, bilinear=False):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels + in_channels // 2, out_channels)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        # input is CHW
        diff_y = x2.size()[2] - x1.size()[2]
        diff_x = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diff_x // 2, diff_x - diff_x // 2, diff_y // 2, diff_y - diff_y // 2])
        x = torch.cat([x2, x1], dim=1)
        return self.conv(x)


class OutConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super(OutConv, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, n_channels=1, n_classes=1, width=8, bilinear=False):
        super().__init__()
        self.inc = DoubleConv(n_channels, width)
        self.down1 = Down(width, width * 2)
        self.down2 = Down(width * 2, width * 4)
        self.down3 = Down(width * 4, width * 8)
        self.up1 = Up(width * 8, width * 4, bilinear)
        self.up2 = Up(width * 4, width * 2, bilinear)
        self.up3 = Up(width * 2, width, bilinear)
        self.outc = OutConv(width, n_classes)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x4 = self.down3(x3)
        x = self.up1(x4, x3)
        x = self.up2(x, x2)
        x = self.up3(x, x1)
        logits = self.outc(x)
        return logits


def random_discs(batch_size, size=36):
    """Images with one bright disc each, and the masks of the discs."""
    ys = torch.arange(size).view(1, size, 1)
    xs = torch.arange(size).view(1, 1, size)
    centre = torch.randint(8, size - 8, (batch_size, 2, 1, 1))
    radius = torch.randint(3, 8, (batch_size, 1, 1))
    mask = ((ys - centre[:, 0]) ** 2 + (xs - centre[:, 1]) ** 2 <= radius**2).float().unsqueeze(1)
    return mask + 0.5 * torch.randn(batch_size, 1, size, size), mask


def dice_loss(logits, target, eps=1.0):
    probs = torch.sigmoid(logits)
    overlap = 2 * (probs * target).sum(dim=(1, 2, 3)) + eps
    total = probs.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3)) + eps
    return (1 - overlap / total).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--bilinear", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    net = UNet(bilinear=args.bilinear)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    net.train()
    for step in range(1, args.steps + 1):
        images, masks = random_discs(args.batch_size)
        logits = net(images)
        loss = F.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step}: loss {loss.item():.6f}")

    net.eval()
    with torch.no_grad():
        images, masks = random_discs(8)
        predicted = (net(images) > 0).float()
        iou = (predicted * masks).sum() / ((predicted + masks) > 0).float().sum()
    print(f"test IoU {iou.item():.4f}")


if __name__ == "__main__":
    main()
