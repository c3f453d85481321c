"""One-stage detector without anchors (after FCOS, Tian et al., 2019) of squares in synthetic images."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

STRIDE = 4
KINDS = 2


class ConvBlock(nn.Module):
    def __init__(self, in_channels, out_channels, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(out_channels)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Backbone(nn.Module):
    """Features of strides 2, 4 and 8."""

    def __init__(self, width=16):
        super().__init__()
        self.stem = ConvBlock(1, width, stride=2)
        self.stage1 = ConvBlock(width, 2 * width, stride=2)
        self.stage2 = ConvBlock(2 * width, 4 * width, stride=2)

    def forward(self, x):
        c1 = self.stem(x)
        c2 = self.stage1(c1)
        c3 = self.stage2(c2)
        return c1, c2, c3


class FeaturePyramid(nn.Module):
    """Adds what is seen at stride 8 to the features of stride 4."""

    def __init__(self, width=16, channels=32):
        super().__init__()
        self.lateral = nn.Conv2d(2 * width, channels, 1)
        self.top = nn.Conv2d(4 * width, channels, 1)
        self.smooth = ConvBlock(channels, channels)

    def forward(self, features):
        _, c2, c3 = features
        top = F.interpolate(self.top(c3), size=c2.shape[-2:], mode="nearest")
        return self.smooth(self.lateral(c2) + top)


class Detector(nn.Module):
    def __init__(self, num_kinds=KINDS, width=16, channels=32):
        super().__init__()
        self.backbone = Backbone(width)
        self.neck = FeaturePyramid(width, channels)
        self.class_head = nn.Sequential(
            ConvBlock(channels, channels), nn.Conv2d(channels, num_kinds, 1)
        )
        self.box_head = nn.Sequential(ConvBlock(channels, channels), nn.Conv2d(channels, 4, 1))
        nn.init.constant_(self.class_head[1].bias, -2.0)

    def forward(self, images):
        features = self.neck(self.backbone(images))
        scores = self.class_head(features)
        # Distances from the place to the left, top, right and bottom of its box are positive.
        distances = F.softplus(self.box_head(features))
        return {"scores": scores, "distances": distances}


def make_images(num_images, size, generator):
    """One filled or hollow square in each image, its box as left, top, right, bottom."""
    images = 0.2 * torch.randn(num_images, 1, size, size, generator=generator)
    boxes = torch.zeros(num_images, 4)
    kinds = torch.randint(0, KINDS, (num_images,), generator=generator)
    for index in range(num_images):
        side = int(torch.randint(8, 17, (1,), generator=generator))
        left, top = torch.randint(0, size - side + 1, (2,), generator=generator).tolist()
        images[index, 0, top : top + side, left : left + side] += 1.0
        if kinds[index] == 1:
            images[index, 0, top + 2 : top + side - 2, left + 2 : left + side - 2] -= 1.0
        boxes[index] = torch.tensor([left, top, left + side, top + side])
    return images, kinds, boxes


def targets_of(kinds, boxes, height, width):
    """Return for each place the kinds that it must find, the distances, and which places lie inside."""
    ys = (torch.arange(height) + 0.5) * STRIDE
    xs = (torch.arange(width) + 0.5) * STRIDE
    left, top, right, bottom = boxes.view(-1, 4, 1, 1).unbind(1)
    grid = torch.broadcast_tensors(
        xs - left, ys.unsqueeze(1) - top, right - xs, bottom - ys.unsqueeze(1)
    )
    distances = torch.stack(grid, dim=1)
    inside = distances.min(dim=1).values > 0
    wanted = F.one_hot(kinds, KINDS).view(-1, KINDS, 1, 1) * inside.unsqueeze(1)
    return wanted.float(), distances / STRIDE, inside


def detection_loss(output, kinds, boxes):
    height, width = output["scores"].shape[-2:]
    wanted, distances, inside = targets_of(kinds, boxes, height, width)
    class_loss = F.binary_cross_entropy_with_logits(output["scores"], wanted)
    error = F.smooth_l1_loss(output["distances"], distances, reduction="none").sum(dim=1)
    box_loss = (error * inside).sum() / inside.sum().clamp(min=1)
    return class_loss + 0.2 * box_loss


def best_boxes(output):
    """Return the kind and the box of the highest score in each image."""
    scores, distances = output["scores"], output["distances"] * STRIDE
    width = scores.shape[-1]
    best = scores.flatten(1).argmax(dim=1)
    kind, place = best // scores[0, 0].numel(), best % scores[0, 0].numel()
    x, y = (place % width + 0.5) * STRIDE, (place // width + 0.5) * STRIDE
    rows = torch.arange(len(place))
    left, top, right, bottom = distances.flatten(2)[rows, :, place].unbind(1)
    return kind, torch.stack([x - left, y - top, x + right, y + bottom], dim=1)


def overlap(first, second):
    """Intersection over union of pairs of boxes."""
    low = torch.maximum(first[:, :2], second[:, :2])
    high = torch.minimum(first[:, 2:], second[:, 2:])
    common = (high - low).clamp(min=0).prod(dim=1)
    areas = [(each[:, 2:] - each[:, :2]).clamp(min=0).prod(dim=1) for each in (first, second)]
    return common / (areas[0] + areas[1] - common)


def main():
    parser = argparse.ArgumentParser(description="detector of squares")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    images, kinds, boxes = make_images(128, 32, generator)
    test_images, test_kinds, test_boxes = make_images(32, 32, generator)

    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        model.train()
        for start in range(0, len(images), args.batch_size):
            batch = slice(start, start + args.batch_size)
            loss = detection_loss(model(images[batch]), kinds[batch], boxes[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        found, found_boxes = best_boxes(model(test_images))
    print(f"kind right {(found == test_kinds).float().mean().item():.3f}", end=", ")
    print(f"mean overlap {overlap(found_boxes, test_boxes).mean().item():.3f}")


if __name__ == "__main__":
    main()
