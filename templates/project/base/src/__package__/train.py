"""The training loop, in full: read it, and change what you need."""

import json
import math
{%- if monitor %}
import time
{%- endif %}
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
{%- if monitor %}
from flodl import Monitor
{%- endif %}
from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from {{ package }} import checkpoint
from {{ package }}.config import Config, to_dict
from {{ package }}.data import Batch, make_loader
from {{ package }}.evaluate import evaluate
from {{ package }}.model import build_model
from {{ package }}.seeding import load_rng_state, rng_state, seed_all


class NonFiniteLossError(Exception):
    """The loss became NaN or infinite; going on would only spoil the weights."""


@dataclass
class Training:
    """Everything that changes while training: what a checkpoint must hold."""

    config: Config
    device: torch.device
    model: nn.Module
    optimizer: AdamW
    schedule: LambdaLR
    scaler: torch.amp.GradScaler
    epoch: int = 0

    def state(self) -> dict[str, Any]:
        """Return all of it as tensors and plain values."""
        return {
            "config": to_dict(self.config),
            "epoch": self.epoch,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "rng": rng_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue exactly where the state was taken."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        self.epoch = state["epoch"]
        load_rng_state(state["rng"])


def start(config: Config) -> Training:
    """Seed, then build the model, the optimizer and the schedule."""
    seed_all(config.seed)
    device = pick_device(config.train.device)
    model = build_model(config).to(device)
    optimizer = AdamW(
        model.parameters(),
        lr=config.train.learning_rate,
        weight_decay=config.train.weight_decay,
    )
    schedule = LambdaLR(optimizer, lambda epoch: learning_rate_factor(config, epoch))
    use_scaler = config.train.amp and device.type == "cuda"
    scaler = torch.amp.GradScaler(device.type, enabled=use_scaler)
    return Training(config, device, model, optimizer, schedule, scaler)


def pick_device(name: str) -> torch.device:
    """Return the device by name; `auto` is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def learning_rate_factor(config: Config, epoch: int) -> float:
    """Return the share of the learning rate for an epoch: linear warm-up, then a cosine."""
    warmup = config.train.warmup_epochs
    if epoch < warmup:
        return (epoch + 1) / (warmup + 1)
    progress = (epoch - warmup) / max(1, config.train.epochs - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def train_epoch({% if monitor %}
    training: Training,
    batches: Iterator[Batch],
    monitor: Monitor | None = None,
    first_step: int = 0,
{% else %}training: Training, batches: Iterator[Batch]{% endif %}) -> float:
    """Take one optimizer step per `accumulate` batches and return the mean loss."""
    settings = training.config.train
    model, optimizer, scaler = training.model, training.optimizer, training.scaler
    model.train()
    optimizer.zero_grad(set_to_none=True)
    total, count, waiting = 0.0, 0, 0
    for features, labels in batches:
        features, labels = features.to(training.device), labels.to(training.device)
        with torch.autocast(training.device.type, enabled=settings.amp):
            loss = F.cross_entropy(model(features), labels)
{%- if monitor %}
        if monitor is not None:
            monitor.record(first_step + count, {"train_loss": loss})
{%- endif %}
        if not torch.isfinite(loss):
            raise NonFiniteLossError(f"epoch {training.epoch}: the loss is {loss.item()}")
        scaler.scale(loss / settings.accumulate).backward()
        total, count, waiting = total + loss.item(), count + 1, waiting + 1
        if waiting == settings.accumulate:
            step(training)
            waiting = 0
    if waiting:
        step(training)
    return total / max(1, count)


def step(training: Training) -> None:
    """Clip the gradients, move the weights, forget the gradients."""
    training.scaler.unscale_(training.optimizer)
    nn.utils.clip_grad_norm_(training.model.parameters(), training.config.train.clip_norm)
    training.scaler.step(training.optimizer)
    training.scaler.update()
    training.optimizer.zero_grad(set_to_none=True)


def fit(training: Training, folder: Path) -> list[dict[str, float]]:
    """Train to the last epoch, with one line of metrics and one checkpoint per epoch."""
    config = training.config
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(to_dict(config), indent=2) + "\n")
    history = []
{%- if monitor %}
    monitor = Monitor(config.train.epochs, run=folder, quiet=True)
    monitor.set_metadata(to_dict(config))
    monitor.watch(training.model)
{%- endif %}
    while training.epoch < config.train.epochs:
        rate = float(training.schedule.get_last_lr()[0])
        loader = make_loader(config.data, config.seed, "train", training.epoch)
{%- if monitor %}
        began, first_step = time.perf_counter(), training.epoch * len(loader)
        train_loss = train_epoch(training, iter(loader), monitor, first_step)
{%- else %}
        train_loss = train_epoch(training, iter(loader))
{%- endif %}
        training.schedule.step()
        training.epoch += 1
        valid = evaluate(training.model, config, training.device)
        metrics = {
            "epoch": training.epoch,
            "learning_rate": rate,
            "train_loss": train_loss,
            "valid_loss": valid["loss"],
            "valid_accuracy": valid["accuracy"],
        }
        history.append(metrics)
        with (folder / "metrics.jsonl").open("a") as stream:
            stream.write(json.dumps(metrics) + "\n")
{%- if monitor %}
        shown = {name: value for name, value in metrics.items() if name != "epoch"}
        monitor.log(training.epoch - 1, time.perf_counter() - began, shown)
{%- endif %}
        checkpoint.save(folder, training.epoch, training.state(), config.keep_checkpoints)
        print(
            f"epoch {training.epoch}/{config.train.epochs}  loss {train_loss:.4f}  "
            f"valid {valid['loss']:.4f}  accuracy {valid['accuracy']:.3f}"
        )
{%- if monitor %}
    monitor.finish()
{%- endif %}
    return history
