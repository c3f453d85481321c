# %% [markdown]
# # One device and more
#
# The same training runs on one device, on two equal ones, or on two of which one is slow. In this tutorial you train
# with two processes on a CPU; GPUs take the same lines. You compare the result with one device, bit for bit, and kill a
# process in the middle. It takes about ten minutes. Training on several devices is alpha.
#
# ## A training on one device

# %%
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Trainer

generator = torch.Generator().manual_seed(0)
x = torch.randn(640, 8, generator=generator)
y = x.sum(dim=1, keepdim=True)


def make_model():
    return nn.Sequential(
        nn.Linear(8, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 1)
    )


def train_step(model, batch):
    inputs, wanted = batch
    return F.mse_loss(model(inputs), wanted)


def prepared(train=train_step):
    return (
        Trainer.builder(make_model, lambda params: torch.optim.Adam(params, lr=1e-2), train)
        .dataset([x, y])
        .batch_size(16)
        .num_epochs(4)
        .seed(0)
        .step("eager")
        .progress(False)
    )


state = prepared().device("cpu").run().join()
print(state.steps, "batches in", state.epochs, "epochs")

# %% [markdown]
# ## Two devices, the numbers of one
#
# `.devices(...)` starts a process for each device. The functions of this file travel to them, so there is no launcher
# and no `DistributedSampler`. With policy `sync`, an update has the batches of `accumulate` *in total*, whoever trains
# them. `exact="bits"` adds the gradients in an order that depends on the batches alone:

# %%
devices = ["cpu", "cpu"]  # or ["cuda:0", "cuda:1"]
one = prepared().accumulate(4).devices(["cpu"]).policy("sync", exact="bits").run().join()
two = prepared().accumulate(4).devices(devices).policy("sync", exact="bits").run().join()


def equal(first, second):
    wanted = second.state_dict()
    return all(torch.equal(value, wanted[name]) for name, value in first.state_dict().items())


print("equal bit for bit:", equal(one, two))
print("ranks:", [each.rank for each in two.history[-1].per_rank])

# %% [markdown]
# Dropout and BatchNorm are part of this: random numbers are seeded for each batch, and the statistics of the batches
# are folded in the order of the data.
#
# ## A process dies
#
# You kill the second process after the first epoch. The other one trains the lost batches again, and continues without a
# restart. Not one bit changes:

# %%
import os
import signal

handle = prepared().accumulate(4).devices(devices).policy("sync", exact="bits").run()
handle.next_metrics()  # waits for the first epoch
os.kill(handle.pids()[1], signal.SIGKILL)
survived = handle.join()
print("equal bit for bit:", equal(one, survived))

# %% [markdown]
# ## Unequal devices
#
# If one device is slow, exact updates wait for it. Policy `cadence`, the default, lets each device train alone for a
# short window, and then averages the weights. It measures the devices, and gives each one the batches that it can train
# in a window. Here the second rank sleeps in every batch:

# %%
import time


class Unequal:
    """A train function that takes 2 ms longer on rank 0, and 30 ms on rank 1."""

    def __init__(self):
        self.pause = 0.0

    def note_rank(self, training):
        self.pause = (0.002, 0.030)[training.rank]

    def __call__(self, model, batch):
        time.sleep(self.pause)
        return train_step(model, batch)


unequal = Unequal()
averaged = prepared(unequal).on("start", unequal.note_rank).devices(devices).run().join()
fast, slow = averaged.history[-1].per_rank
print(averaged.decision.partition(", ")[2])
print("each batch once in an epoch:", fast.batches + slow.batches == 40)
print("more batches on the fast rank:", fast.batches > 1.5 * slow.batches)
print("the loss fell:", averaged.history[-1].avg_loss < 0.5 * averaged.history[0].avg_loss)

# %% [markdown]
# Numbers of policy `cadence` depend on the speeds of the devices, so two runs differ a little. `share_of_ideal` of an
# epoch tells how much of the devices was used; `python benchmarks/scale.py` measures it beside
# `DistributedDataParallel`.
#
# ## Watch the ranks
#
# A callback at `window` gets a `WindowReport`: the batches of each rank, how long it was busy, and how far the ranks had
# drifted apart. A monitor draws the same numbers.

# %%
from flodl import RankShare, WindowReport

report = WindowReport(
    step=56,
    seconds=0.10,
    loss=0.5,
    per_rank=(
        RankShare(rank=0, batches=44, busy=0.099),
        RankShare(rank=1, batches=12, busy=0.090),
    ),
)
for name, value in report.numbers().items():
    print(f"{name:14} {value:.3f}")

# %% [markdown]
# ## Where next
#
# - [Training on several devices](../how-to/many-devices.md): all settings, torchrun, SLURM and `fdl launch`.
# - [El Che](../explanation/el-che.md): how windows and shares are chosen.
# - [Long runs](12_long_runs.py): a training of several devices continues from its checkpoints too.
