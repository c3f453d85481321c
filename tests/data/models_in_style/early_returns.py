"""Early returns by modes, types, sizes and values; errors with formatted text."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head, self.aux = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)
        self.num_classes = 2
        self.features_only = False

    def forward_features(self, x):
        return F.relu(self.stem(x))

    def forward_head(self, x, pre_logits: bool = False):
        if pre_logits:
            return x
        return self.head(x) if self.num_classes > 0 else x

    def forward(self, x, targets=None):
        if x.ndim != 2:
            raise ValueError(f"expected 2 dimensions, got {x.ndim} of shape {tuple(x.shape)}")
        x = self.forward_features(x)
        if self.features_only:
            return [x]
        if x.sum() == 0:
            return x
        logits = self.forward_head(x)
        if targets is None:
            return logits
        if not self.training:
            return {"logits": logits, "loss": F.cross_entropy(logits, targets)}
        if isinstance(targets, (list, tuple)):
            return sum(F.cross_entropy(logits, t) for t in targets)
        loss = F.cross_entropy(logits, targets)
        assert not torch.isnan(loss), f"loss is {loss.item()}"
        return loss + 0.4 * F.cross_entropy(self.aux(x), targets)


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 4), torch.randint(0, 2, (rows,))), {}


def third_inputs(rows):
    return (torch.randn(rows, 4), [torch.zeros(rows, dtype=torch.long)] * 2), {}


def fourth_inputs(rows):
    return (torch.randn(rows, 4, 4),), {}


def fifth_inputs(rows):
    return (torch.full((rows, 4), float("nan")), torch.zeros(rows, dtype=torch.long)), {}


CHANGES = {"features": lambda net: setattr(net, "features_only", True), "classes": lambda net: setattr(net, "num_classes", 0)}
