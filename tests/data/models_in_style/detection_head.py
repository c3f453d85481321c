"""Anchors and boxes: caches by sizes, lists of levels, loops over images with their own counts."""

import torch
import torch.nn.functional as F
from torch import nn


class AnchorGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell_anchors = [torch.tensor([[-1.0, -1, 1, 1], [-2, -1, 2, 1]])]
        self._cache = {}

    def grid_anchors(self, grid_sizes, strides):
        anchors = []
        for size, stride, base in zip(grid_sizes, strides, self.cell_anchors * len(grid_sizes)):
            h, w = size
            ys, xs = torch.meshgrid(torch.arange(h) * stride[0], torch.arange(w) * stride[1], indexing="ij")
            shifts = torch.stack((xs.flatten(), ys.flatten(), xs.flatten(), ys.flatten()), dim=1)
            anchors.append((shifts.view(-1, 1, 4) + base.view(1, -1, 4)).reshape(-1, 4))
        return anchors

    def cached_grid_anchors(self, grid_sizes, strides):
        key = str(grid_sizes) + str(strides)
        if key in self._cache:
            return self._cache[key]
        anchors = self.grid_anchors(grid_sizes, strides)
        self._cache[key] = anchors
        return anchors

    def forward(self, image_size, feature_maps):
        grid_sizes = [feature_map.shape[-2:] for feature_map in feature_maps]
        strides = [[image_size[0] // g[0], image_size[1] // g[1]] for g in grid_sizes]
        return torch.cat(self.cached_grid_anchors(grid_sizes, strides))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Conv2d(1, 2, 3, 2, 1), nn.Conv2d(2, 2, 3, 2, 1)])
        self.head = nn.Conv2d(2, 10, 1)
        self.anchors = AnchorGenerator()
        self.score_thresh, self.top_n = 0.0, 3

    def decode(self, deltas, anchors):
        size = anchors[:, 2:] - anchors[:, :2]
        return torch.cat([anchors[:, :2] + deltas[..., :2] * size, anchors[:, 2:] + deltas[..., 2:] * size], -1)

    def forward(self, images, targets=None):
        if self.training and targets is None:
            torch._assert(False, "targets should not be none when in training mode")
        x, feats = images, []
        for layer in self.body:
            x = F.relu(layer(x))
            feats.append(x)
        anchors = self.anchors(images.shape[-2:], feats)
        outs = []
        for f in feats:
            n, _, h, w = f.shape
            outs.append(self.head(f).view(n, 2, 5, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 5))
        out = torch.cat(outs, dim=1)
        boxes, scores = self.decode(out[..., :4], anchors), out[..., 4].sigmoid()
        if targets is not None:
            losses = {}
            for i, t in enumerate(targets):
                if t["boxes"].numel() == 0:
                    continue
                losses[f"loss_{i}"] = (boxes[i][: len(t["boxes"])] - t["boxes"]).abs().mean()
            return losses
        results = []
        for b, s in zip(boxes, scores):
            keep = torch.where(s > self.score_thresh)[0]
            b, s = b[keep], s[keep]
            num = min(self.top_n, s.shape[0])
            s, idx = s.topk(num)
            b = b[idx].clamp(min=0)
            results.append({"boxes": b, "scores": s, "n": num})
        return results


def inputs(rows):
    return (torch.randn(rows, 1, 8, 8),), {}


def second_inputs(rows):
    targets = [{"boxes": torch.rand(i, 4)} for i in range(rows)]
    return (torch.randn(rows, 1, 8, 4), targets), {}


CHANGES = {"threshold": lambda net: setattr(net, "score_thresh", 0.6), "top": lambda net: setattr(net, "top_n", 100),
           "cells": lambda net: net.anchors.cell_anchors.__setitem__(0, torch.ones(2, 4))}
