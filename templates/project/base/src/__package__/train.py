"""The training step, and the `flodl.Trainer` that runs it: change either."""

import math
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from flodl import Batch, Monitor, TrainedState, Trainer
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from {{ package }}.config import Config, store, to_dict, with_logger
from {{ package }}.data import make_loader
from {{ package }}.evaluate import measure
from {{ package }}.model import build_model


def train_step(model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of a batch; `Trainer` does the rest of the step."""
    *inputs, labels = batch
    return F.cross_entropy(model(*inputs), labels)


def fit(config: Config, folder: Path, *, resume: bool = False) -> TrainedState:
    """Train to the last epoch; with `resume`, continue the run in the folder, bit for bit."""
    settings = config.train
    trainer = (
        Trainer.builder(
            lambda: build_model(config),
            partial(AdamW, lr=settings.learning_rate, weight_decay=settings.weight_decay),
            train_step,
        )
        .dataset(make_loader(config.data, config.seed, "train"))
        .evaluate(make_loader(config.data, config.seed, "valid"), measure)
        .num_epochs(settings.epochs)
        .seed(config.seed)
        .device(pick_device(settings.device))
        .precision("bf16" if settings.amp else None)
        .max_grad_norm(settings.clip_norm)
        .accumulate(settings.accumulate)
        .scheduler(lambda optimizer: LambdaLR(optimizer, partial(learning_rate_factor, config)))
        .run_dir(folder)
        .checkpoints(epochs=1, keep_last=config.keep_checkpoints)
        .on("start", lambda training: store(config, folder))
    )
    monitor = make_monitor(config, folder)
    if monitor is not None:
        trainer.monitor(monitor)
    if resume:
        trainer.resume("auto")
    return trainer.run().join()


def make_monitor(config: Config, folder: Path) -> Monitor | None:
    """Return what records the run: flodl's monitor, with another tool beside it, or nothing."""
    logger = with_logger(config).logger
    if logger == "none":
        return None
    place = {"tensorboard": folder / "tensorboard", "wandb": __name__.partition(".")[0]}
    sinks = [f"{logger}:{place[logger]}"] if logger in place else []
    monitor = Monitor(config.train.epochs, run=folder, sinks=sinks)
    monitor.set_metadata(to_dict(config))
    return monitor


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
