# %% [markdown]
# # Training
#
# You train a model with `Trainer`, evaluate it, end early, and use a schedule and averaged weights. Then you keep your
# own loop and let `Trainer.setup` do the bookkeeping. It takes about ten minutes.
#
# ## Data, model, step
#
# Two spirals wind around each other, and the model learns which one a point is on. All three pieces are ordinary
# PyTorch: a module, an optimizer and a function that returns a loss.

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from flodl import DataLoader, FlowBuilder, Trainer


def spirals(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 2, (samples,), generator=generator)
    turn = torch.rand(samples, generator=generator) * 3 * math.pi + 0.5
    angle = turn + label * math.pi
    points = torch.stack((turn * angle.cos(), turn * angle.sin()), dim=1) / 10
    return points + 0.01 * torch.randn(samples, 2, generator=generator), label


def block(width: int) -> nn.Module:
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())


def make_model() -> nn.Module:
    return (
        FlowBuilder.from_(nn.Linear(2, 64))
        .also(block(64))
        .also(block(64))
        .through(nn.Linear(64, 2))
        .build()
    )


def make_optimizer(params):
    return torch.optim.AdamW(params, lr=5e-3)


def train_step(model, batch):
    points, labels = batch
    logits = model(points)
    accuracy = (logits.argmax(dim=1) == labels).float().mean()
    return F.cross_entropy(logits, labels), {"accuracy": accuracy.detach()}


# %% [markdown]
# `train_step` returns the loss, or the loss and a dict of metrics.
#
# ## The shortest training
#
# `Trainer.builder` collects settings and `run` trains. `join` returns the state at the end: weights, history, and the
# reason why it ended. On a terminal, `run` also shows a line of progress on standard error.

# %%
trained = (
    Trainer.builder(make_model, make_optimizer, train_step)
    .dataset(list(spirals(2000, seed=0)))
    .batch_size(100)
    .num_epochs(15)
    .seed(0)
    .step("eager")
    .run()
    .join()
)
print(trained.stopped_by, trained.epochs, trained.steps)
print(trained.trend("loss").improving(), trained.trend("accuracy").latest > 0.9)

# %% [markdown]
# The model function is called with the seed in force, so the same program gives the same bits. `load_into` puts the
# trained weights into a module:

# %%
model = trained.load_into(make_model()).eval()
points, labels = spirals(1000, seed=1)
with torch.no_grad():
    right = (model(points).argmax(dim=1) == labels).float().mean().item()
assert right > 0.9
print("more than 90 % of new points are right")

# %% [markdown]
# ## Evaluate, and end early
#
# `evaluate` takes a data set for the end of each epoch, and its metrics get the prefix `val_`. `early_stop` ends the
# training when a metric has not improved for some epochs.

# %%
training = DataLoader(spirals(2000, seed=0), batch_size=100)
validation = DataLoader(spirals(500, seed=2), batch_size=500, shuffle=False)


def prepared():
    return (
        Trainer.builder(make_model, make_optimizer, train_step)
        .dataset(training)
        .evaluate(validation)
        .seed(0)
        .step("eager")
        .progress(False)
    )


stopped = prepared().num_epochs(60).early_stop("val_loss", patience=4).run().join()
assert stopped.epochs < 60
print(sorted(stopped.history[-1].scalars))
print(stopped.stopped_by.partition(" for ")[0])

# %% [markdown]
# ## Schedules, clipping, averages
#
# Each of these is one line. The schedule is a pure function of the step, so you can look at it before you train:

# %%
from flodl import CosineScheduler

schedule = CosineScheduler(5e-3, 1e-4, 300)
print([round(schedule.lr(step), 5) for step in (0, 75, 150, 225, 300)])

# %%
tuned = prepared().num_epochs(15).scheduler(schedule).max_grad_norm(1.0).ema(0.99).run().join()
print(tuned.stopped_by, tuned.steps, tuned.trend("val_accuracy").latest > 0.9)

# %% [markdown]
# The evaluation uses the averaged weights.
#
# ## Call your code
#
# `on` calls a function at an event. This one ends the training as soon as nine of ten points are right:


# %%
def enough(training, metrics):
    if metrics.scalars["val_accuracy"] > 0.9:
        training.stop()


quick = prepared().num_epochs(60).on("epoch", enough).run().join()
assert quick.epochs < 60
print(quick.trend("val_accuracy").latest > 0.9)

# %% [markdown]
# ## A loss that is not a number
#
# A loss that is infinite or not a number ends the training at once. The error names the step and the batch:

# %%
from flodl import NonFiniteError


def broken_step(model, batch):
    points, labels = batch
    return F.cross_entropy(model(points) * math.inf, labels)


try:
    (
        Trainer.builder(make_model, make_optimizer, broken_step)
        .dataset(training)
        .num_epochs(1)
        .seed(0)
        .step("eager")
        .progress(False)
        .run()
        .join()
    )
except NonFiniteError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# ## Keep your loop
#
# If you have a loop, keep it. `Trainer.setup` returns a session whose `step` clips, sets the rate, updates and clears
# the gradients:

# %%
torch.manual_seed(0)
model = make_model()
session = Trainer.setup(model, make_optimizer(model.parameters()), max_grad_norm=1.0)
losses = []
for epoch in range(5):
    for batch in training.epoch(epoch):
        loss, _ = train_step(model, batch)
        loss.backward()
        session.step()
    losses.append(loss.item())
print(losses[-1] < losses[0])

# %% [markdown]
# ## Where next
#
# - [Long runs](12_long_runs.py): checkpoints, signals, and a run that continues after it was killed.
# - [The monitor](09_monitor.py): curves while the training runs.
# - [All settings of the trainer](../how-to/training.md), and [data sets](../how-to/data.md).
