"""A small training for tests of the loop, and the same written by hand."""

import torch
import torch.nn.functional as F
from torch import nn

from flodl import (
    Ema,
    Trainer,
)

X = torch.linspace(-1, 1, 40 * 3).reshape(40, 3)
Y = X.square().sum(1, keepdim=True)
BATCHES = list(zip(X.split(8), Y.split(8), strict=True))


def make():
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 1))


def train_step(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def sgd(params):
    return torch.optim.SGD(params, lr=0.02, momentum=0.5)


def builder(data=BATCHES, model=make, optimizer=sgd, fn=train_step):
    return (
        Trainer.builder(model, optimizer, fn)
        .dataset(data)
        .device("cpu")
        .seed(0)
        .step("eager")
        .fused(False)
        .progress(False)
    )


def by_hand(epochs, *, clip=None, accumulate=1, scheduler=None, ema=None):
    torch.manual_seed(0)
    model = make()
    optimizer = sgd(model.parameters())
    averages = Ema(model, ema) if ema else None
    losses, updates = [], 0
    for _ in range(epochs):
        for index, (x, y) in enumerate(BATCHES):
            if index % accumulate == 0:
                optimizer.zero_grad()
                if scheduler:
                    scheduler.apply(optimizer, updates)
            loss = F.mse_loss(model(x), y)
            (loss / accumulate).backward()
            losses.append(loss.item())
            if index % accumulate == accumulate - 1:
                if clip:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                updates += 1
                if averages:
                    averages.update()
    return model, losses, averages


def equal(state, model):
    return all(
        torch.equal(each, state.parameters[name]) for name, each in model.named_parameters()
    )
