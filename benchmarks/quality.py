"""Training on two unequal devices beside one: how much six small models learn in as many epochs.

Run: `python benchmarks/quality.py [--model NAME] [--seeds N] [--epochs N] [--json FILE]` (half an hour)

The two devices have shares of 5 to 2 by policies Cadence and Async, with at most 10 batches of the slower
one in a window. Data are made: characters of Python's own documents, and noisy, shifted pictures of ten
random shapes. Each line has the mean over the seeds and the standard deviation: of the loss on test data,
and of the part that is right. Devices that train side by side make fewer updates one after the other, so a
model that is far from its end is behind after as many epochs. A line holds if its mean is at most two
standard errors worse than that of one device.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pydoc_data.topics
import statistics
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.shared import conditions
from flodl import Trainer, TrainerBuilder
from flodl.distributed import ElChe
from flodl.train.comparison import PolicyComparison, PolicyRun, compare_policies
from flodl.train.comparison.table import ONE_DEVICE

SHARES = [5, 2]
CLASSES, LENGTH = 10, 32
WIDE, HEADS = 48, 4
HEAD = (
    "| Model | Epochs | Trained on | Test loss | Right | Holds |",
    "|---|---|---|---|---|---|",
)


@final
class CharRnn(nn.Module):
    """A recurrent model of characters, as in char-rnn."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(128, 32), nn.GRU(32, 96, batch_first=True)
        self.out = nn.Linear(96, 128)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of shape (batch, characters, length) for numbers of shape (batch, length)."""
        return self.out(self.rnn(self.embed(x))[0]).transpose(1, 2)


@final
class LeNet(nn.Sequential):
    """LeNet-5, for images of 16 x 16."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(144, 84), nn.ReLU(), nn.Linear(84, CLASSES),
        )  # fmt: skip


@final
class Mlp(nn.Sequential):
    """Three layers, for images of 16 x 16."""

    def __init__(self) -> None:
        super().__init__(
            nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
            nn.Linear(128, CLASSES),
        )  # fmt: skip


@final
class ConvAutoencoder(nn.Sequential):
    """An autoencoder of images of 16 x 16, through 8 x 4 x 4 numbers."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, stride=2, padding=1),
            nn.ConvTranspose2d(8, 16, 2, stride=2), nn.ReLU(), nn.ConvTranspose2d(16, 1, 2, stride=2),
        )  # fmt: skip


@final
class GptNano(nn.Module):
    """Two layers of a transformer that sees the characters before, as GPT does."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(128, WIDE), nn.Embedding(LENGTH, WIDE)
        layer = nn.TransformerEncoderLayer(
            WIDE,
            HEADS,
            4 * WIDE,
            dropout=0.1,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(WIDE), nn.Linear(WIDE, 128))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of shape (batch, characters, length) for numbers of shape (batch, length)."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        seen = self.embed(x) + self.place.weight
        return self.out(self.body(seen, mask=mask, is_causal=True)).transpose(1, 2)


@final
class Residual(nn.Module):
    """A block of a residual network."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
            nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Add what the two convolutions make, and cut off below zero."""
        return torch.relu(x + self.body(x))


@final
class ResNet(nn.Sequential):
    """A residual network with the depth of ResNet-20, and 8 channels."""

    def __init__(self) -> None:
        blocks = [Residual(8) for _ in range(9)]
        super().__init__(
            nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), *blocks,
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES),
        )  # fmt: skip


def text(count: int, first: int) -> list[Tensor]:
    """Return pieces of a text of Python's own documents, and the characters that follow."""
    whole = "".join(sorted(pydoc_data.topics.topics.values()))
    codes = torch.tensor([min(ord(each), 127) for each in whole[:400_000]])
    starts = first + torch.arange(count) * LENGTH
    places = starts[:, None] + torch.arange(LENGTH)
    return [codes[places], codes[places + 1]]


def images(count: int, first: int) -> list[Tensor]:
    """Return noisy, shifted pictures of ten random shapes, and their numbers."""
    shapes = torch.rand(CLASSES, 1, 16, 16, generator=torch.Generator().manual_seed(0)) > 0.6
    generator = torch.Generator().manual_seed(first + 1)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    shifts = torch.randint(-2, 3, (count, 2), generator=generator).tolist()
    noise = 0.9 * torch.randn(count, 1, 16, 16, generator=generator)
    moved = [
        shapes[label].float().roll(tuple(shift), (1, 2))
        for label, shift in zip(labels.tolist(), shifts, strict=True)
    ]
    return [torch.stack(moved) + noise, labels]


def loss_of(model: nn.Module, batch: Any) -> Any:
    """Return the loss, and the part that is right."""
    inputs, wanted = batch
    found = model(inputs)
    return nn.functional.cross_entropy(found, wanted), {
        "right": (found.argmax(1) == wanted).float().mean()
    }


def pixel_loss(model: nn.Module, batch: Any) -> Tensor:
    """Return how far the images that an autoencoder makes are from those that it was given."""
    pictures, _ = batch
    return nn.functional.mse_loss(model(pictures), pictures)


SGD = partial(torch.optim.SGD, momentum=0.9)
# Name -> model, data, samples, loss, optimizer, epochs.
MODELS: dict[str, Any] = {
    "mlp": (Mlp, images, 2048, loss_of, partial(SGD, lr=0.02), 12),
    "lenet": (LeNet, images, 2048, loss_of, partial(SGD, lr=0.05), 12),
    "resnet": (ResNet, images, 2048, loss_of, partial(SGD, lr=0.1), 8),
    "conv-ae": (
        ConvAutoencoder,
        images,
        2048,
        pixel_loss,
        partial(torch.optim.AdamW, lr=3e-3),
        12,
    ),
    "char-rnn": (CharRnn, text, 4096, loss_of, partial(torch.optim.AdamW, lr=3e-3), 24),
    "gpt-nano": (GptNano, text, 4096, loss_of, partial(torch.optim.AdamW, lr=3e-3), 24),
}


def builder_of(name: str, epochs: int | None = None) -> TrainerBuilder:
    """Return the training of a model, on one device."""
    model, make, count, loss, optimizer, usual = MODELS[name]
    made = Trainer.builder(model, optimizer, loss).dataset(make(count, 0)).batch_size(32)
    epochs = epochs or usual
    made.evaluate(make(1024, 300_000), batch_size=256, every=epochs)
    return made.num_epochs(epochs).step("eager").progress(False)


def compared(name: str, seeds: int, epochs: int | None = None) -> PolicyComparison:
    """Train a model on one device, and on two under each policy, once with each seed."""
    return compare_policies(
        partial(builder_of, name, epochs),
        ["cpu"] * 2,
        seeds=range(seeds),
        el_che=ElChe(max_anchor=10).partition(SHARES),
    )


def is_within(ours: list[float], alone: list[float]) -> bool:
    """Return True if the mean is not below that of one device by more than two standard errors.

    The error of a difference of two means: sqrt(s1^2 / n1 + s2^2 / n2) (Welch).
    """
    error = math.sqrt(sum(statistics.variance(each) / len(each) for each in (ours, alone)))
    return statistics.fmean(ours) >= statistics.fmean(alone) - 2 * error


def scores(runs: tuple[PolicyRun, ...]) -> list[float]:
    """Return what shall be high of each run: the part that is right, else the negative loss."""
    return [each.scalars.get("val_right", -each.scalars["val_loss"]) for each in runs]


def lines(name: str, epochs: int, found: PolicyComparison) -> list[str]:
    """Return the lines of a model in the table."""
    alone = scores(found.of(ONE_DEVICE))
    made = []
    for policy in found.policies:
        runs = found.of(policy)
        loss = spread([each.scalars["val_loss"] for each in runs], "{:.4f}")
        right = "-"
        if "val_right" in runs[0].scalars:
            right = spread([100 * each.scalars["val_right"] for each in runs], "{:.1f}") + " %"
        where = policy if policy == ONE_DEVICE else f"two, {policy}"
        holds = "-" if policy == ONE_DEVICE or len(runs) < 2 else "no"
        if holds == "no" and is_within(scores(runs), alone):
            holds = "yes"
        made.append(f"| {name} | {epochs} | {where} | {loss} | {right} | {holds} |")
    return made


def spread(numbers: list[float], form: str) -> str:
    """Return the mean, and the standard deviation of several numbers."""
    mean = form.format(statistics.fmean(numbers))
    return f"{mean} ± {form.format(statistics.stdev(numbers))}" if len(numbers) > 1 else mean


def main() -> None:
    """Train, print the table, and write the result if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, help="one model alone")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each run")
    parser.add_argument("--epochs", type=int, help="epochs of each run")
    parser.add_argument("--json", type=Path, help="write the result to a file")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    before = conditions.measured("torch")
    print("\n".join(HEAD))
    rows = []
    for name in [options.model] if options.model else MODELS:
        epochs = options.epochs or MODELS[name][-1]
        found = compared(name, options.seeds, epochs)
        print("\n".join(lines(name, epochs, found)), flush=True)
        runs = [asdict(each) for each in found.runs]
        rows.append({"model": name, "epochs": epochs, "runs": runs})
    if options.json:
        result = {"measured": conditions.ended(before), "rows": rows}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
