# %% [markdown]
# # Long runs
#
# Machines fail, and time on them ends. In this tutorial you kill a training with `kill -9`, continue it, and compare
# the result with a training that was never interrupted: all weights have the same bits. It takes about ten minutes.
#
# ## A training in a file
#
# A training that may be killed is a process of its own, so it is a file. The lines that matter are the last four of
# `prepared`. The `sleep` stands for a larger model: without it, this training would end before you can kill it.

# %%
from pathlib import Path

PROGRAM = """
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from flodl import CosineScheduler, Trainer

PAUSE = 0.0


def make_model():
    return nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 1))


def train_step(model, batch):
    time.sleep(PAUSE)
    x, y = batch
    return F.mse_loss(model(x), y)


def prepared(run):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(640, 8, generator=generator)
    y = x.sum(dim=1, keepdim=True)
    return (
        Trainer.builder(make_model, lambda params: torch.optim.Adam(params, lr=1e-2), train_step)
        .dataset([x, y])
        .batch_size(32)
        .num_epochs(10)
        .seed(0)
        .step("eager")
        .progress(False)
        .scheduler(CosineScheduler(1e-2, 1e-4, 200))
        .run_dir(run)
        .checkpoints(steps=15, keep_last=9)
        .resume("auto")
    )


if __name__ == "__main__":
    PAUSE = 0.02
    prepared(sys.argv[1]).run().join()
"""
_ = Path("long_training.py").write_text(PROGRAM)

# %% [markdown]
# `checkpoints(steps=15)` saves every 15 steps and at the end of each epoch, and `resume("auto")` begins a new run or continues an existing one. So
# the same command serves for the first start and for every later one.
#
# ## Kill it
#
# You start the program, wait for its second checkpoint, and kill it. The process gets no chance to save anything.

# %%
import signal
import subprocess
import sys
import time


def start(run: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "long_training.py", run])


def wait_for_checkpoints(run: str, count: int) -> None:
    limit = time.monotonic() + 120
    while len(list(Path(run, "checkpoints").glob("step-*.fdl"))) < count:
        assert time.monotonic() < limit, "there is no checkpoint"
        time.sleep(0.02)


process = start("runs/killed")
wait_for_checkpoints("runs/killed", 2)
process.kill()
print("exit code", process.wait())

# %% [markdown]
# ## What is left
#
# The run directory has the checkpoints. A file is complete or absent, because it is written beside the old one and
# renamed. `RunDirectory` lists them:

# %%
from flodl import RunDirectory

run = RunDirectory.open("runs/killed")
saved = run.checkpoints.entries()
print(saved[0].path.name, saved[0].reason)
print(sorted(path.name for path in Path("runs/killed").iterdir() if path.is_file()))
assert saved[-1].step < 200  # it is not finished

# %% [markdown]
# `environment.json` has versions, hardware and the command line, `config.json` the settings of the training.
#
# ## Continue
#
# The same settings continue the run, here without the pause and in this process:

# %%
import runpy

program = runpy.run_path("long_training.py")
make_model, prepared = program["make_model"], program["prepared"]

continued = prepared("runs/killed").run().join()
print(continued.stopped_by, "after", continued.steps, "steps")

# %% [markdown]
# ## Compare
#
# A second training runs without interruption. The model has a dropout, and the data are shuffled, so equal weights need
# equal random numbers in every step. All bits are equal:

# %%
import torch

whole = prepared("runs/whole").run().join()
first, second = continued.load_into(make_model()), whole.load_into(make_model())
for name, value in first.state_dict().items():
    assert torch.equal(value, second.state_dict()[name]), name
print(len(first.state_dict()), "tensors are equal bit for bit")

# %% [markdown]
# A checkpoint holds everything that decides the future: model, optimizer, schedule, the position in the data, all
# generators of random numbers, and the state of early stopping and averages.
#
# ## A polite end
#
# Batch systems send SIGTERM before they take a machine away. The trainer then finishes the step, writes a checkpoint,
# and ends with the exit code `128 + signal`, so you lose nothing. The checkpoint has the reason `SIGTERM`, unless one of
# the same step was there already:

# %%
process = start("runs/stopped")
wait_for_checkpoints("runs/stopped", 2)
process.terminate()
print("exit code", process.wait(), "and SIGTERM is", int(signal.SIGTERM))

# %% [markdown]
# ## A damaged checkpoint
#
# Every byte of a checkpoint is covered by a checksum. If a disk flips a bit in the newest file, the next start uses
# the one before:

# %%
newest = RunDirectory.open("runs/stopped").checkpoints.entries()[-1].path
data = bytearray(newest.read_bytes())
data[-100] ^= 1
newest.write_bytes(data)

usable = RunDirectory.open("runs/stopped").checkpoints.latest()
assert usable.path != newest
continued = prepared("runs/stopped").run().join()
for name, value in continued.load_into(make_model()).state_dict().items():
    assert torch.equal(value, second.state_dict()[name]), name
print("the run continued from the checkpoint before, and ends with the same bits")

# %% [markdown]
# ## A budget
#
# `max_steps` ends a training early, and counts from the beginning of the run. With it, a long training fits into short
# jobs; each one continues where the one before ended:

# %%
for job in (1, 2, 3):
    state = prepared("runs/jobs").max_steps(80 * job).run().join()
    print(f"job {job}: {state.stopped_by}, {state.steps} steps")

# %% [markdown]
# ## Where next
#
# - [Runs that resume](../how-to/training.md#runs-that-resume): signals, full disks, and what a run directory holds.
# - [Checkpoints](../how-to/checkpoints.md): the file format and its promises.
# - [The monitor](09_monitor.py) draws a run that was interrupted as one curve.
