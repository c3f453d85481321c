"""Measure a model on the validation split, without changing it."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from {{ package }} import checkpoint
from {{ package }}.config import Config, from_dict
from {{ package }}.data import make_loader
from {{ package }}.model import build_model


@torch.no_grad()
def evaluate(model: nn.Module, config: Config, device: torch.device) -> dict[str, float]:
    """Return the mean loss and the accuracy; the model leaves in the mode it came in."""
    was_training = model.training
    model.eval()
    loss, correct, count = 0.0, 0, 0
    for features, labels in make_loader(config.data, config.seed, "valid", 0):
        features, labels = features.to(device), labels.to(device)
        scores = model(features)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += int((scores.argmax(1) == labels).sum())
        count += len(labels)
    model.train(was_training)
    return {"loss": loss / count, "accuracy": correct / count}


def evaluate_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint with its own configuration and measure it on the CPU."""
    state = checkpoint.load(path)
    config = from_dict(state["config"])
    model = build_model(config)
    model.load_state_dict(state["model"])
    return {"epoch": state["epoch"], **evaluate(model, config, torch.device("cpu"))}
