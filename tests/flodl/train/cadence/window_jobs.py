"""Trainings by policy cadence, with a model that counts how often it saw each batch."""

import hashlib
import os
import signal
import time
from pathlib import Path

import torch
from torch import nn

from flodl import RankShare, Trainer, WindowReport
from flodl.checkpoint.tensors import as_bytes
from flodl.distributed import ElChe
from flodl.distributed.team import ExactRunner, PeerLostError, Team

BATCHES = 60
SAMPLES = 8


class Counting(nn.Module):
    """A small model; its buffer counts the batches that are part of the weights, by their number."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
        self.register_buffer("seen", torch.zeros(BATCHES, dtype=torch.int64))

    def forward(self, x, number):
        self.seen[number] += 1
        return self.body(x)


def counting_loss(model, batch):
    inputs, wanted, number = batch
    return nn.functional.mse_loss(model(inputs, number), wanted), {"number": number.float()}


def data(batches=BATCHES):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(batches, SAMPLES, 4, generator=generator)
    wanted = inputs.sum(2, keepdim=True)
    return [(inputs[each], wanted[each], torch.tensor(each)) for each in range(batches)]


class Acting:
    """A train function that takes time, and does something once on some ranks."""

    def __init__(self, folder, acts, seconds=0.002):
        self.folder, self.acts, self.seconds = str(folder), dict(acts), seconds
        self.rank = self.calls = -1

    def note_rank(self, training):
        self.rank, self.calls = training.rank, 0

    def __call__(self, model, batch):
        time.sleep(self.seconds)
        self.calls += 1
        at, kind = self.acts.get(self.rank, (0, ""))
        if self.calls == at:
            (Path(self.folder) / f"fault-{self.rank}").touch()
            if kind == "raise":
                raise ValueError("this batch is bad")
            if kind == "nan":
                loss, metrics = counting_loss(model, batch)
                return loss * float("nan"), metrics
            os.kill(os.getpid(), kind)
        return counting_loss(model, batch)


class Overlapping(Acting):
    """The same, and each rank counts in a file the windows that were added up while it trained on."""

    def note_rank(self, training):
        super().note_rank(training)
        start, file = ExactRunner.start, Path(self.folder) / f"overlaps-{self.rank}"

        def counted(runner, row, work):
            with file.open("a") as lines:
                lines.write(f"{row.done}\n")
            start(runner, row, work)

        ExactRunner.start = counted


def overlaps(folder):
    return {each.name: each.read_text().split() for each in Path(folder).glob("overlaps-*")}


class SlowFrom:
    """A train function whose rank 1 becomes slow."""

    def __init__(self, calls, seconds):
        self.calls, self.seconds, self.rank = calls, seconds, -1

    def note_rank(self, training):
        self.rank = training.rank

    def __call__(self, model, batch):
        self.calls -= 1
        time.sleep(self.seconds if self.rank == 1 and self.calls < 0 else 0.002)
        return counting_loss(model, batch)


class Ends:
    """A hook that writes what each rank has at the end."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, training, reason):
        found = hashlib.sha256()
        for each in training.model.state_dict().values():
            found.update(bytes(as_bytes(each.contiguous())))
        for state in training.optimizer.state.values():
            for _, each in sorted(state.items()):
                if isinstance(each, torch.Tensor):
                    found.update(bytes(as_bytes(each.contiguous())))
        (self.folder / f"end-{training.rank}").write_text(f"{reason} {found.hexdigest()}")


def ends(folder):
    return {each.name: each.read_text() for each in Path(folder).glob("end-*")}


class Rates:
    """A hook that keeps the learning rate of every batch of a rank in a file."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, training, loss):
        with (self.folder / f"rates-{training.rank}").open("a") as file:
            file.write(f"{training.update} {training.current_lr}\n")


class Windows:
    """A hook that keeps the report of every window of the first rank in a file."""

    def __init__(self, folder):
        self.path = Path(folder) / "windows"

    def __call__(self, training, report):
        if training.rank == 0:
            with self.path.open("a") as file:
                file.write(repr(report) + "\n")

    def read(self):
        known = {"WindowReport": WindowReport, "RankShare": RankShare, "nan": float("nan")}
        return [eval(line, known) for line in self.path.read_text().splitlines()]


class MissedSum:
    """A train function that lets a rank take the n-th sum for lost, after another one died in it."""

    def __init__(self, at, dies, misses):
        self.at, self.dies, self.misses, self.rank = at, dies, misses, -1

    def note_rank(self, training):
        self.rank = training.rank
        sum_up, calls = Team.sum_up, 0

        def faulty(team, tensors):
            nonlocal calls
            calls += 1
            if calls != self.at:
                return sum_up(team, tensors)
            sums = sum_up(team, tensors)
            if self.rank == self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.rank == self.misses:
                team._drop_group()
                raise PeerLostError("planted: the sum did not arrive")
            return sums

        Team.sum_up = faulty

    def __call__(self, model, batch):
        time.sleep(0.002)
        return counting_loss(model, batch)


def adam(parameters):
    return torch.optim.Adam(parameters, 1e-2)


def builder(folder, ranks, *, train=counting_loss, epochs=2, batches=None, optimizer=adam):
    made = Trainer.builder(Counting, optimizer, train).num_epochs(epochs).seed(3)
    made = made.dataset(data() if batches is None else batches).progress(False).patience(20.0)
    made = made.step("eager").on("end", Ends(folder))
    if not isinstance(train, type(counting_loss)):
        made.on("start", train.note_rank)
    return made if ranks is None else made.devices(["cpu"] * ranks).policy("cadence")


def overlapped(folder, ranks, *, acts=(), train=None, **settings):
    """Return a training by policy async whose windows are short, so that many are under way."""
    train = Overlapping(folder, dict(acts)) if train is None else train
    made = builder(folder, ranks, train=train, **settings).policy("async")
    return made.el_che(ElChe(max_anchor=2))
