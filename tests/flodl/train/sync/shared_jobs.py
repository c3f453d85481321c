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
from flodl.distributed.team import ExactRunner, PeerLostError
from flodl.train.checkpointing import Checkpointing

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


class Awaiting:
    """A train function that is slow until a rank trains that started later; ranks may do things meanwhile.

    Args:
        folder: where the ranks tell of each other.
        acts: by rank, the batch that it does not survive, and the signal that it gets then; `after` counts
            batches since the rank that is awaited trained its first one.
    """

    def __init__(self, folder, awaited, acts=(), after=(), loss=loss_of):
        self.folder, self.awaited = Path(folder), awaited
        self.acts, self.after, self.loss = dict(acts), dict(after), loss
        self.own, self.done, self.since = -1, 0, 0

    def note_rank(self, training):
        self.own = training.rank

    def __call__(self, model, batch):
        self.done += 1
        flag = self.folder / f"trained-{self.awaited}"
        if self.own == self.awaited:
            flag.touch()
        has_come = flag.exists()
        self.since += has_come
        self._act(self.acts, self.done)
        self._act(self.after, self.since)
        time.sleep(0.002 if has_come else 0.05)
        return self.loss(model, batch)

    def _act(self, acts, count):
        at, number = acts.get(self.own, (-1, 0))
        if count == at:
            (self.folder / f"fault-{self.own}").touch()
            os.kill(os.getpid(), number)


class Planted(Awaiting):
    """The same, with a fault of one of the first ranks in the admission of a rank that joins.

    Args:
        rank: the rank with the fault.
        kind: `pack` dies when it is asked for the state, `sent` when it has sent it; `sum` takes the sum that
            ends the admission for lost; `before` does so with the window before the admission.
    """

    def __init__(self, folder, awaited, rank, kind):
        super().__init__(folder, awaited)
        self.rank, self.kind = rank, kind

    def note_rank(self, training):
        super().note_rank(training)
        if training.rank == self.rank:
            {"pack": self._pack, "sum": self._sum, "before": self._before, "sent": self._sent}[
                self.kind
            ]()

    def _die(self):
        (self.folder / f"fault-{self.own}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def _pack(self):
        Checkpointing.packed = lambda *_: self._die()

    def _sent(self):
        share_state = ExactRunner._share_state

        def faulty(runner, size, source, state=None):
            share_state(runner, size, source, state)
            self._die()

        ExactRunner._share_state = faulty

    def _sum(self):
        self._lose(lambda runner: runner._pack is not None)

    def _before(self):
        self._lose(lambda runner: runner._pack is None and runner._team.newcomers())

    def _lose(self, is_due):
        sum_units = ExactRunner._sum

        def faulty(runner, window, work):
            sums = sum_units(runner, window, work)
            flag = self.folder / f"fault-{self.own}"
            if is_due(runner) and not flag.exists():
                flag.touch()
                runner._team._drop_group()
                raise PeerLostError("planted: the sum did not arrive")
            return sums

        ExactRunner._sum = faulty


def wait_for(found, count=1):
    """Return what a function returns, as soon as that has so many items."""
    end = time.monotonic() + 60
    while len(found()) < count:
        assert time.monotonic() < end, f"{found()} after 60 s, and {count} were expected"
        time.sleep(0.05)
    return found()
