"""Trainings that the tests share over ranks, and the faults that they plan."""

import hashlib
import os
import signal
import time
from pathlib import Path

import torch
from torch import nn

from flodl import Trainer, record_scalar
from flodl.checkpoint.tensors import as_bytes

SAMPLES = 160
BATCH = 8  # 20 units in an epoch


def net():
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
    )


def plain_net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


class PartlyUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.used(x)


def partly_used():
    return PartlyUsed()


def adam(parameters):
    return torch.optim.Adam(parameters, 1e-2)


def loss_of(model, batch):
    inputs, wanted = batch
    loss = nn.functional.mse_loss(model(inputs), wanted)
    return loss, {"double": 2 * loss}


def recording(model, batch):
    loss, _ = loss_of(model, batch)
    record_scalar("own", loss.detach().sqrt())
    return loss


class Faulty:
    """A train function that does something once, on one rank, after some calls."""

    def __init__(self, rank, calls, kind, folder):
        self.rank, self.calls, self.kind, self.folder = rank, calls, kind, str(folder)
        self.own = -1

    def note_rank(self, training):
        self.own = training.rank

    def __call__(self, model, batch):
        time.sleep(0.002)
        if self.own == self.rank:
            self.calls -= 1
            if self.calls == 0:
                self.act()
        return loss_of(model, batch)

    def act(self):
        (Path(self.folder) / "fault").write_text(str(self.own))
        if self.kind == "raise":
            raise ValueError("this batch is bad")
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)


class StopOn:
    """A hook that ends the training on one rank."""

    def __init__(self, rank, step):
        self.rank, self.step = rank, step

    def __call__(self, training, loss):
        if training.rank == self.rank and training.step >= self.step:
            training.stop("a rank saw enough")


def data():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES, 4, generator=generator)
    return [inputs, inputs.sum(1, keepdim=True)]


def builder(
    devices,
    *,
    exact="bits",
    accumulate=4,
    model=net,
    epochs=2,
    train=loss_of,
    batches=None,
    optimizer=adam,
):
    made = (
        Trainer.builder(model, optimizer, train).num_epochs(epochs).seed(3).accumulate(accumulate)
    )
    made = made.dataset(data()).batch_size(BATCH) if batches is None else made.dataset(batches)
    if isinstance(train, Faulty):
        made.on("start", train.note_rank)
    if devices is None:
        return made.progress(False)
    return made.devices(devices).policy("sync", exact=exact).patience(20.0).progress(False)


def digest(state):
    found = hashlib.sha256()
    for name, each in sorted(state.state_dict().items()):
        found.update(name.encode() + bytes(as_bytes(each.contiguous())))
    return found.hexdigest()[:16]


class Deadly:
    """A train function that kills its rank after some calls."""

    def __init__(self, calls, folder):
        self.calls, self.folder, self.own, self.done = calls, Path(folder), -1, 0
        self.folder.mkdir(parents=True)

    def note_rank(self, training):
        self.own = training.rank

    def __call__(self, model, batch):
        self.done += 1
        if self.done == self.calls.get(self.own):
            (self.folder / str(self.own)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.001)
        return loss_of(model, batch)
