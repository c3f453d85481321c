# %% [markdown]
# # The monitor
#
# A monitor records numbers, prints a line per epoch, and shows the run on a live page. In this tutorial you record a
# run by hand, let `Trainer` record another, and read both afterwards. It takes about ten minutes.
#
# ## Record
#
# `record` takes the values of a step. It never waits for a GPU or a disk. `log` ends an epoch: it prints a line and
# takes the metrics of the epoch. The seconds here are made up, so that this page shows the same line as your run.

# %%
import math

from flodl import Monitor

monitor = Monitor(3, run="runs/by-hand", resources=False)
for epoch in range(3):
    for step in range(100 * epoch, 100 * epoch + 100):
        monitor.record(step, {"loss": math.exp(-step / 100), "rate": 0.01})
    monitor.log(epoch, 1.5, {"valid_loss": math.exp(-epoch)})

# %% [markdown]
# The first argument is the planned number of epochs, from which the remaining time follows. With `run`, everything is
# stored below that folder; without it, the monitor only prints.
#
# ## The live page
#
# `serve` starts a small web server and prints the address. Open it in a browser to see the curves move. The server
# listens on this machine only, and the page loads nothing from anywhere else.

# %%
import contextlib
import io
import urllib.request

with contextlib.redirect_stdout(io.StringIO()):  # the line has a port that differs in each run
    address = monitor.serve()
with urllib.request.urlopen(address) as answer:
    page = answer.read().decode()
print(answer.status, "and", page.count("<script src="), "scripts from elsewhere")

# %% [markdown]
# ## Events and alerts
#
# `event` adds a line to the list of events. The monitor raises alerts by itself: for a value that is not a number, for
# a loss on a plateau, and for a long silence. Each problem raises one alert until it is over.

# %%
monitor.event("note", "the data were shuffled again")
monitor.record(300, {"loss": float("nan")})
monitor.flush()

# %% [markdown]
# `finish` stores the rest, releases the port, and ends the run:

# %%
with contextlib.redirect_stdout(io.StringIO()):
    monitor.finish()

# %% [markdown]
# ## With Trainer
#
# `Trainer` records the loss, the rate and the metrics, and describes the model and the settings. You only pass the
# monitor. `quiet` switches the printed lines off.

# %%
import torch
import torch.nn.functional as F
from torch import nn

from flodl import FlowBuilder, Trainer

generator = torch.Generator().manual_seed(0)
x = torch.randn(512, 8, generator=generator)
y = (x.sum(dim=1) > 0).long()


def make_model() -> nn.Module:
    return (
        FlowBuilder.from_(nn.Linear(8, 32))
        .also((nn.GELU(), nn.Linear(32, 32)))
        .through(nn.Linear(32, 2))
        .build()
    )


def train_step(model, batch):
    points, labels = batch
    logits = model(points)
    accuracy = (logits.argmax(dim=1) == labels).float().mean()
    return F.cross_entropy(logits, labels), {"accuracy": accuracy.detach()}


def train(run: str, rate: float) -> None:
    watch = Monitor(6, run=run, resources=False, quiet=True)
    watch.set_metadata({"rate": rate})
    (
        Trainer.builder(make_model, lambda params: torch.optim.AdamW(params, lr=rate), train_step)
        .dataset([x, y])
        .batch_size(64)
        .num_epochs(6)
        .seed(0)
        .step("eager")
        .progress(False)
        .monitor(watch)
        .run()
        .join()
    )


train("runs/fast", 1e-2)
train("runs/slow", 1e-4)

# %% [markdown]
# ## Read a run afterwards
#
# `fdl monitor runs/` serves a page with all runs below a folder, and draws their curves into the same charts. With
# `--json` it prints the facts instead:

# %%
import json
import subprocess
import sys


def fdl(*words: str) -> str:
    command = [sys.executable, "-m", "fdl_cli", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


found = json.loads(fdl("monitor", "runs", "--json"))
for row in found["data"]["runs"]:
    print(row)

# %% [markdown]
# ## A page to keep
#
# `--export` writes one page with everything in it, which needs no server. You can send it to a colleague:

# %%
from pathlib import Path

fdl("monitor", "runs/fast", "runs/slow", "--export", "curves.html")

page = Path("curves.html").read_text()
print(page.count("<script src="), "scripts from elsewhere")

# %% [markdown]
# ## Records as lines
#
# `--records` prints each stored record as a line of JSON, so every tool can read a run. Here is the accuracy of the
# first and of the last step:

# %%
rows = [json.loads(line) for line in fdl("monitor", "runs/fast", "--records").splitlines()]
accuracies = [row["values"]["accuracy"] for row in rows if "accuracy" in row.get("values", {})]
print(len(accuracies), "values,", "higher at the end:", accuracies[-1] > accuracies[0])

# %% [markdown]
# ## Where next
#
# - [All of the monitor](../how-to/monitor.md): requests from the page, other machines, TensorBoard and other sinks.
# - [Long runs](12_long_runs.py): a run that was killed continues its curves.
# - [Observe values](../how-to/observation.md) inside a model, and record them as metrics.
