"""Measure a model on the validation split, without changing it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from flodl import Batch, load_checkpoint
from torch import Tensor, nn

from {{ package }}.config import Config
from {{ package }}.data import make_loader
from {{ package }}.model import build_model


def measure(model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
    """Return the metrics of a batch, each as a mean over its samples."""
    *inputs, labels = batch
    scores = model(*inputs)
    return {
        "loss": F.cross_entropy(scores, labels),
        "accuracy": (scores.argmax(1) == labels).float().mean(),
    }


@torch.no_grad()
def evaluate(model: nn.Module, config: Config, device: torch.device) -> dict[str, float]:
    """Return the means over the split; the model leaves in the mode it came in."""
    was_training = model.training
    model.eval()
    sums: dict[str, float] = {}
    count = 0
    for batch in make_loader(config.data, config.seed, "valid").on(device):
        for name, value in measure(model, batch).items():
            sums[name] = sums.get(name, 0.0) + value.item() * batch.size
        count += batch.size
    model.train(was_training)
    return {name: total / count for name, total in sums.items()}


def evaluate_checkpoint(path: Path, config: Config, device: torch.device) -> dict[str, Any]:
    """Load the weights of a checkpoint and measure them."""
    model = build_model(config)
    load_checkpoint(path, model)
    return {"checkpoint": str(path), **evaluate(model.to(device), config, device)}
