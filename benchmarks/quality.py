"""Training on two unequal devices beside one: how much three small models learn in as many epochs.

Run: `python benchmarks/quality.py [--model NAME] [--seeds N] [--epochs N]` (about ten minutes for all)

The two devices train by policy Cadence, with shares of 5 to 2. Data are made: characters of Python's own
documents, and noisy, shifted pictures of ten random shapes. Each line has the part of the test data that is
right, for each seed, and the mean. Devices that train side by side make fewer updates one after the other,
so a model that is far from its end is behind after as many epochs.
"""

from __future__ import annotations

import argparse
import os
import pydoc_data.topics
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from flodl import Trainer
from flodl.distributed import ElChe

SHARES = [5, 2]
CLASSES, LENGTH = 10, 32
HEAD = ("| Model | Epochs | Devices | Right, each seed | Mean |", "|---|---|---|---|---|")


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


MODELS: dict[str, Any] = {
    "char-rnn": (CharRnn, text, 4096, partial(torch.optim.AdamW, lr=3e-3), 24),
    "lenet": (LeNet, images, 2048, partial(torch.optim.SGD, lr=0.05, momentum=0.9), 12),
    "resnet": (ResNet, images, 2048, partial(torch.optim.SGD, lr=0.1, momentum=0.9), 8),
}


def accuracy(name: str, seed: int, devices: int, epochs: int | None = None) -> float:
    """Return the part of the test data that a model gets right after its epochs."""
    model, make, count, optimizer, usual = MODELS[name]
    epochs = epochs or usual
    made = Trainer.builder(model, optimizer, loss_of).dataset(make(count, 0)).batch_size(32)
    made.num_epochs(epochs).seed(seed).step("eager").progress(False)
    made.evaluate(make(1024, 300_000), batch_size=256, every=epochs)
    if devices > 1:
        made.devices(["cpu"] * devices).policy("cadence")
        made.el_che(ElChe(max_anchor=10).partition(SHARES))
    found: float = made.run().join().history[-1].scalars["val_right"]
    return found


def line(name: str, seeds: int, devices: int, epochs: int | None = None) -> str:
    """Return a line of the table."""
    found = [accuracy(name, seed, devices, epochs) for seed in range(seeds)]
    each = ", ".join(f"{one:.1%}" for one in found)
    mean = statistics.fmean(found)
    return f"| {name} | {epochs or MODELS[name][-1]} | {devices} | {each} | {mean:.1%} |"


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, help="one model alone")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each run")
    parser.add_argument("--epochs", type=int, help="epochs of each run")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    print("\n".join(HEAD))
    for name in [options.model] if options.model else MODELS:
        for devices in (1, 2):
            print(line(name, options.seeds, devices, options.epochs), flush=True)


if __name__ == "__main__":
    main()
