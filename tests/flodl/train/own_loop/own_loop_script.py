"""Loops of one's own for processes that a launcher starts: `own_loop_script.py FOLDER [kill]`."""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

from flodl import CosineScheduler, Trainer
from flodl.nn.rng import seed_all
from tests.flodl.train.sync import shared_jobs as jobs

EPOCHS = 2


def normed_net():
    # A bias before a normalization has no gradient but rounding, of which Adam makes whole steps.
    return nn.Sequential(
        nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)
    )


def session_of(make_model, **options):
    seed_all(3)
    given = {"data": jobs.data(), "batch_size": jobs.BATCH, "seed": 3, "policy": "sync"}
    return Trainer.setup(make_model(), jobs.adam, **given, **options)


def rounded_session():
    """Many options; an update reaches over the end of an epoch, which has 20 batches."""
    return session_of(
        normed_net, accumulate=6, max_grad_norm=0.5, ema=0.9, scheduler=CosineScheduler(0.1, 0.01, 6)
    )  # fmt: skip


def exact_session(**options):
    # As the builder does, which is the reference: `fused`.
    return session_of(jobs.net, accumulate=4, exact="bits", fused=True, **options)


def train(session, first=0, last=EPOCHS, fault=lambda batches: None):
    batches = 0
    for epoch in range(first, last):
        for batch in session.batches(epoch):
            loss, _ = jobs.loss_of(session.model, batch)
            session.backward(loss)
            batches += 1
            fault(batches)
            session.step()
        session.end_epoch(epoch)
    return batches


def outcome(session, batches):
    state = {name: each.clone() for name, each in session.model.state_dict().items()}
    averages = {} if session.ema is None else dict(session.ema.averages)
    return {
        "state": state,
        "averages": averages,
        "updates": session.training_step,
        "batches": batches,
    }


def train_all(folder):
    """Return what three trainings made: rounded, continued from a file of another number, exact."""
    rounded = rounded_session()
    batches = train(rounded, last=1)
    rounded.save(folder / "half.safetensors", epoch=1)
    batches += train(rounded, first=1)
    found = {"rounded": outcome(rounded, batches)}
    continued = rounded_session()
    first = continued.resume(folder / "half-of-one.safetensors").epoch
    found["continued"] = outcome(continued, train(continued, first=first))
    exact = exact_session()
    found["exact"] = outcome(exact, train(exact))
    return found


def die_on(rank):
    def act(batches):
        if rank == 1 and batches == 2:  # how many it gets depends on its speed
            os.kill(os.getpid(), signal.SIGKILL)

    return act


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if sys.argv[2:] == ["kill"]:
        session = exact_session(patience=2.0)
        made = {"exact": outcome(session, train(session, fault=die_on(session.rank)))}
    else:
        made = train_all(folder)
        session = exact_session()
        session.close()
    torch.save(made, folder / f"rank-{session.rank}.pt")
