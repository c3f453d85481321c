# %% [markdown]
# # Utilities
#
# Around a training there is always the same small work: seeds, initial weights, rates per part, frozen layers, schedules,
# averages and files. In this tutorial you do each of them with one call. All of it works on every `nn.Module`, ported
# or not. It takes about ten minutes.
#
# ## Seeds
#
# `seed_all` seeds PyTorch, Python and NumPy. It returns a generator of its own, which disturbs none of the global ones:

# %%
import random

import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import (
    AdamW,
    CosineScheduler,
    WarmupScheduler,
    clip_grad_norm,
    freeze,
    load_checkpoint,
    save_checkpoint,
    seed_all,
    trainable_parameters,
    unfreeze,
)

rng = seed_all(7)
first = (torch.rand(1).item(), random.random())
rng.usize(100)  # draws from the generator, not from PyTorch
seed_all(7)
print(first == (torch.rand(1).item(), random.random()))

# %% [markdown]
# ## How large is it
#
# `view` adds tables to any module: parameters by part, and multiply-accumulates for an input.

# %%
model = nn.Sequential()
model.body = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
model.head = nn.Linear(64, 3)
view = flodl.view(model)
print(view.param_summary())
print(view.summary(torch.ones(8, 16), depth=1))

# %% [markdown]
# ## Initial weights
#
# The initialisers return new tensors, and draw exactly what `torch.nn.init` draws:

# %%
from flodl import kaiming_normal

torch.manual_seed(0)
weights = kaiming_normal([64, 16], 16)
torch.manual_seed(0)
print(torch.equal(weights, nn.init.kaiming_normal_(torch.empty(64, 16))))

# %% [markdown]
# ## Rates per part, and frozen parts
#
# `freeze` stops the gradients of a part. Optimizers take a module in place of its parameters, and groups by part:

# %%
freeze(model.body)
print(len(trainable_parameters(model)), "tensors are left to train")
unfreeze(model.body[2])

optimizer = AdamW.with_groups().group(model.head, lr=1e-2).group(model.body[2], lr=1e-3).build()
print([optimizer.lr(group) for group in range(2)])

# %% [markdown]
# ## Schedules
#
# A schedule is a function of the step. You can print it, plot it, and continue it anywhere, because it has no state:

# %%
schedule = WarmupScheduler(CosineScheduler(1e-2, 1e-4, 100), 1e-2, 10)
print([round(schedule.lr(step), 4) for step in (0, 5, 10, 60, 109)])

# %% [markdown]
# `apply` sets the rate of all groups. The loop below is plain PyTorch, with clipping by the norm of all gradients:

# %%
x = torch.randn(64, 16)
labels = torch.randint(0, 3, (64,))
head_only = AdamW(model.head, 1e-2)
losses = []
for step in range(100):
    schedule.apply(head_only, step)
    loss = F.cross_entropy(model(x), labels)
    head_only.zero_grad()
    loss.backward()
    clip_grad_norm(model, 1.0)
    head_only.step()
    losses.append(loss.item())
print(losses[-1] < losses[0])

# %% [markdown]
# ## Averages of weights
#
# `Ema` keeps an exponential average beside the model. `applied` puts it in for a block, and takes it out again:

# %%
from flodl import Ema

ema = Ema(model, 0.9)
before = model.head.weight.detach().clone()
with torch.no_grad():
    model.head.weight.add_(1.0)
ema.update()
with ema.applied():
    print(round((model.head.weight - before).mean().item(), 3))
print(round((model.head.weight - before).mean().item(), 3))

# %% [markdown]
# ## Files
#
# A checkpoint is a safetensors file with checksums and the architecture. Loading reports every name, and a
# damaged file changes nothing:

# %%
from pathlib import Path

from flodl import CheckpointError

save_checkpoint("model.fdl", model)
fresh = nn.Sequential()
fresh.body = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
fresh.head = nn.Linear(64, 3)
print(load_checkpoint("model.fdl", fresh))
assert torch.equal(fresh(x), model(x))

damaged = bytearray(Path("model.fdl").read_bytes())
damaged[-5] ^= 1
Path("damaged.fdl").write_bytes(damaged)
try:
    load_checkpoint("damaged.fdl", fresh)
except CheckpointError as error:
    print(type(error).__name__, torch.equal(fresh(x), model(x)))

# %% [markdown]
# ## Lower precision
#
# `cast_parameters` changes the dtype of the floating parameters in place. `autocast` runs a block in it instead:

# %%
from flodl import DType, autocast, cast_parameters

with autocast(DType.BFloat16, device_type="cpu"):
    print(model(x).dtype, model.head.weight.dtype)
print(cast_parameters(fresh, DType.BFloat16), "tensors are", fresh.head.weight.dtype)

# %% [markdown]
# ## Where next
#
# - [Training](04_training.py): `Trainer` does all of this for you.
# - [Checkpoints](../how-to/checkpoints.md): parts of files, renamed tensors, whole runs.
# - [PyTorch and flodl side by side](../reference/pytorch-map.md), the complete table.
