"""Three small models with data that is made, to compare what one device and two learn in as many epochs."""

import pydoc_data.topics
from functools import partial

import torch
from torch import nn

from flodl import Trainer
from flodl.distributed import ElChe

SHARES = [5, 2]  # of two unequal devices
CLASSES, LENGTH = 10, 32


class CharRnn(nn.Module):
    """A recurrent model of characters, as in char-rnn."""

    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(128, 32), nn.GRU(32, 96, batch_first=True)
        self.out = nn.Linear(96, 128)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0]).transpose(1, 2)


class LeNet(nn.Sequential):
    """LeNet-5, for images of 16 x 16."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(144, 84), nn.ReLU(), nn.Linear(84, CLASSES),
        )  # fmt: skip


class Residual(nn.Module):
    """A block of a residual network."""

    def __init__(self, wide):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
            nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip

    def forward(self, x):
        return torch.relu(x + self.body(x))


class ResNet(nn.Sequential):
    """A residual network with the depth of ResNet-20, and 8 channels."""

    def __init__(self):
        blocks = [Residual(8) for _ in range(9)]
        super().__init__(
            nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), *blocks,
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES),
        )  # fmt: skip


def text(count, first):
    """Return pieces of a text of Python's own documents, and the characters that follow."""
    whole = "".join(sorted(pydoc_data.topics.topics.values()))
    codes = torch.tensor([min(ord(each), 127) for each in whole[:400_000]])
    starts = first + torch.arange(count) * LENGTH
    places = starts[:, None] + torch.arange(LENGTH)
    return [codes[places], codes[places + 1]]


def images(count, first):
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


def loss_of(model, batch):
    inputs, wanted = batch
    found = model(inputs)
    return nn.functional.cross_entropy(found, wanted), {
        "right": (found.argmax(1) == wanted).float().mean()
    }


MODELS = {
    "char-rnn": (CharRnn, text, 4096, partial(torch.optim.AdamW, lr=3e-3), 24),
    "lenet": (LeNet, images, 2048, partial(torch.optim.SGD, lr=0.05, momentum=0.9), 12),
    "resnet": (ResNet, images, 2048, partial(torch.optim.SGD, lr=0.1, momentum=0.9), 8),
}


def accuracy(name, seed, ranks):
    """Return the part of the test data that a model gets right after its epochs."""
    model, make, count, optimizer, epochs = MODELS[name]
    made = Trainer.builder(model, optimizer, loss_of).dataset(make(count, 0)).batch_size(32)
    made.num_epochs(epochs).seed(seed).step("eager").progress(False)
    made.evaluate(make(1024, 300_000), batch_size=256, every=epochs)
    if ranks > 1:
        made.devices(["cpu"] * ranks).policy("cadence")
        made.el_che(ElChe(max_anchor=10).partition(SHARES))
    return made.run().join().history[-1].scalars["val_right"]
