"""Adaptive computation: a loop that ends when all rows have halted."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.p = nn.Linear(4, 4), nn.Linear(4, 1)
        self.max_hop, self.threshold = 5, 0.9

    def should_continue(self, halting, n_updates):
        return ((halting < self.threshold) & (n_updates < self.max_hop)).any()

    def forward(self, state):
        halting = torch.zeros(state.shape[0], dtype=state.dtype)
        remainders, n_updates = torch.zeros_like(halting), torch.zeros_like(halting)
        previous, step = torch.zeros_like(state), 0
        while ((halting < self.threshold) & (n_updates < self.max_hop)).byte().any():
            p = torch.sigmoid(self.p(state)).squeeze(-1)
            running = (halting < 1.0).to(state.dtype)
            new_halted = (halting + p * running > self.threshold).to(state.dtype) * running
            running = (halting + p * running <= self.threshold).to(state.dtype) * running
            halting = halting + p * running
            remainders = remainders + new_halted * (1 - halting)
            halting = halting + new_halted * remainders
            n_updates += running + new_halted
            weights = p * running + new_halted * remainders
            state = torch.tanh(self.cell(state))
            previous = state * weights.unsqueeze(-1) + previous * (1 - weights.unsqueeze(-1))
            step += 1
        while self.should_continue(halting, n_updates):
            halting = halting + 0.5
        return previous, remainders, n_updates, step


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def bias(net):
    net.p.bias.data.fill_(3.0)


CHANGES = {"bias": bias, "hops": lambda net: setattr(net, "max_hop", 2), "threshold": lambda net: setattr(net, "threshold", 0.2)}
