"""Recurrent state on the object: hidden states kept between calls, reset by size, detached, lists of them."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4, batch_first=True)
        self.hidden = None
        self.history, self.named = [], {}
        self.step_count, self.stateful = 0, True
        self.register_buffer("ema", None)

    def reset(self):
        self.hidden = None
        self.history.clear()

    def init_hidden(self, rows):
        weight = next(self.parameters())
        return (weight.new_zeros(1, rows, 4), weight.new_zeros(1, rows, 4))

    def forward(self, x, reset=False):
        if reset or not self.stateful:
            self.reset()
        if self.hidden is None or self.hidden[0].size(1) != x.size(0):
            self.hidden = self.init_hidden(x.size(0))
        out, hidden = self.rnn(x, self.hidden)
        self.hidden = tuple(h.detach() for h in hidden)
        self.history.append(out[:, -1].detach().mean())
        self.history = self.history[-3:]
        self.named.setdefault("out", []).append(self.step_count)
        self.step_count += 1
        if self.ema is None:
            self.ema = out.detach().mean((0, 1))
        else:
            self.ema = 0.9 * self.ema + 0.1 * out.detach().mean((0, 1))
        return out * self.step_count, torch.stack(self.history).mean(), self.ema, len(self.named["out"])


def inputs(rows):
    return (torch.randn(rows, 3, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 2, 4),), {"reset": True}


CHANGES = {"stateful": lambda net: setattr(net, "stateful", False), "reset": lambda net: net.reset(),
           "hidden": lambda net: setattr(net, "hidden", None), "named": lambda net: net.named.clear()}
