"""Trains again and again and is killed, or asked to end, at random moments.

`python -m tests.flodl.train.casualties kill|ask COUNT FOLDER` writes one JSON line per casualty.  One process
imports torch; every training is a fork of it.
"""

import json
import mmap
import os
import random
import signal
import struct
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from flodl import CosineScheduler, RunDirectory, Trainer

EPOCHS = 5
EVERY = 3
LAST = 55  # of 60
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


def train(folder, counter, began):
    """One training from wherever the folder says, to the end; every other one is saved beside it."""
    x = torch.linspace(-1, 1, 48 * 3).reshape(48, 3)
    y = (x**2).sum(1, keepdim=True)

    def model():
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))

    def train_step(model, batch):
        return F.mse_loss(model(batch[0]), batch[1])

    def count(training, loss):
        counter[:8] = struct.pack("q", training.step)

    def evaluate(model, batch):
        time.sleep(0.001)  # long enough to be hit
        return {"loss": F.mse_loss(model(batch[0]), batch[1]) + 0.0 * torch.rand(())}

    return (
        Trainer.builder(model, lambda params: torch.optim.Adam(params, lr=1e-2), train_step)
        .dataset([x, y])
        .batch_size(4)
        .num_epochs(EPOCHS)
        .seed(3)
        .step("eager")
        .accumulate(2)
        .ema(0.9)
        .scheduler(CosineScheduler(1e-2, 1e-4, 40))
        .evaluate([(x[:24], y[:24]), (x[24:], y[24:])], evaluate)
        .run_dir(folder)
        .checkpoints(
            steps=EVERY,
            keep_last=2,
            keep_best=1,
            metric="val_loss",
            beside=folder.name[-1] in "13579",
        )
        .resume("auto")
        .progress(False)
        .on("start", lambda training: os.write(began, b"!"))
        .on("step", count)
        .run()
        .join()
    )


def fork(folder, result=None):
    """Start a training in a child; return its process, its step counter, and a pipe that says it began."""
    counter = mmap.mmap(-1, 8)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, counter, reading
    code = 1
    try:
        state = train(folder, counter, writing)
        if result is not None:
            torch.save(
                {**state.state_dict(), **{f"ema.{k}": v for k, v in state.averages.items()}},
                result,
            )
        code = 0
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finish(folder, result):
    pid, _, reading = fork(folder, result)
    code = ended(pid)
    os.close(reading)
    return code


def steps_of(counter):
    return struct.unpack("q", counter[:8])[0]


def casualty(folder, number, step, delay):
    """Train, strike some time after a step, and train on; return what happened."""
    pid, counter, reading = fork(folder)
    os.read(reading, 1)
    os.close(reading)
    while steps_of(counter) < step:
        time.sleep(0.0005)
    time.sleep(delay)
    os.kill(pid, number)
    code = ended(pid)
    steps = steps_of(counter)
    checkpoints = RunDirectory.open(folder).checkpoints
    damaged = []
    saved = checkpoints.latest(damaged.append)
    after = finish(folder, folder / "result.pt")
    return {
        "signal": signal.Signals(number).name,
        "code": code,
        "steps": steps,
        "saved": saved.step if saved else 0,
        "reason": saved.reason if saved else "",
        "damaged": damaged,
        "after": after,
    }


def same(first, second):
    one, other = torch.load(first), torch.load(second)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def main():
    how, count, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    # In this process, so that no child has to import what is imported late.
    train(folder / "warm", bytearray(8), os.open(os.devnull, os.O_WRONLY))
    assert finish(folder / "whole", folder / "whole.pt") == 0
    chance = random.Random(17)
    for index in range(count):
        number = signal.SIGKILL if how == "kill" else ASKING[index % len(ASKING)]
        place = folder / f"{index}"
        # By steps and not by time: however busy the machine is, it is hit while it trains.
        step = chance.randrange(LAST)
        found = casualty(place, number, step, chance.uniform(0, 0.004))
        found["equal"] = found["after"] == 0 and same(folder / "whole.pt", place / "result.pt")
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
