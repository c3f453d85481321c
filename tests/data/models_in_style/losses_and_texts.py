"""Losses made in the forward, warnings and logs with values, asserts with texts of tensors, raised texts."""

import logging
import warnings

import torch
from torch import nn


logger = logging.getLogger(__name__)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.weights = torch.tensor([1.0, 2.0, 1.0, 0.5])
        self.label_smoothing, self.limit = 0.1, 100.0
        self.logged = []

    def check(self, x, name):
        if not torch.isfinite(x).all():
            raise FloatingPointError(f"{name} has {int((~torch.isfinite(x)).sum())} bad values of {x.numel()}")
        if x.abs().max() > self.limit:
            raise ValueError("too large: %.2f in %s" % (x.abs().max().item(), tuple(x.shape)))
        return x

    def forward(self, x, target=None):
        self.check(x, "input")
        logits = self.lin(x)
        assert logits.shape == x.shape, f"{logits.shape} is not {x.shape}"
        assert (logits.abs() < 1e4).all(), f"logits up to {logits.abs().max():.3f}"
        self.logged.append(f"mean {logits.mean().item():.3f} of {list(logits.shape)}")
        logger.debug("logits %s", logits)
        if target is None:
            return logits, self.logged[-1]
        criterion = nn.CrossEntropyLoss(weight=self.weights.to(logits.dtype), label_smoothing=self.label_smoothing)
        loss = criterion(logits, target)
        if loss > 2.5:
            warnings.warn(f"loss is {loss}")
        text = "loss {:.3f} for {}".format(loss.item(), str(tuple(target.shape)))
        return {"loss": loss, text: logits}


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 4), torch.randint(0, 4, (rows,))), {}


def third_inputs(rows):
    return (torch.full((rows, 4), float("nan")),), {}


def fourth_inputs(rows):
    return (torch.full((rows, 4), 200.0),), {}


CHANGES = {"limit": lambda net: setattr(net, "limit", 1e9), "weights": lambda net: net.weights.mul_(3),
           "smoothing": lambda net: setattr(net, "label_smoothing", 0.0)}
