import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

SAID = []
logger = logging.Logger("case")
handler = logging.Handler()
handler.emit = lambda record: SAID.append(record.getMessage())
logger.addHandler(handler)


class Keeper:
    """Keeps what is printed."""

    write = staticmethod(SAID.append)


class Speaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.name = "speaks"

    def forward(self, x):
        y = self.a(x)
        logger.info(f"{self.name}: mean {y.detach().mean():.4f} of {x.shape}")  # every call
        for i, row in enumerate(y.unbind(0)):
            logger.info("%s has norm %.3f" % (i, row.detach().norm()))
        logger.info("max {:.3f}".format(y.max().item()))
        print(f"{x.dim()} dimensions", file=Keeper)
        return F.relu(y)


class Random(nn.Module):
    """Its layers are new in every call."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.width = 3

    def forward(self, x):
        head = nn.Linear(x.size(1), self.width)
        y = nn.BatchNorm1d(4)(self.a(x))
        stack = nn.Sequential(self.a, nn.ReLU(), head)
        y = nn.Dropout(0.5)(y)
        return stack(y), head.weight, Speaks()(x)


class Packs(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 3, batch_first=True)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed = PackedSequence(
            self.drop(packed.data), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
        )
        out, _ = self.rnn(packed)
        return pad_packed_sequence(out, batch_first=True)[0]


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.gradients = []

    def keep(self, gradient):
        self.gradients.append(gradient)

    def forward(self, x, scale):
        y = self.a(x)
        if y.requires_grad:
            y.register_hook(self.keep)
            y.register_hook(lambda gradient: gradient * scale)
        return torch.tanh(y)


def check():
    speaks, random, packs, hooked = Speaks(), Random(), Packs(), Hooked()
    results = []
    for turn in range(4):
        for net in (speaks, random, packs, hooked):
            net.train(turn % 2 == 0)
        x = torch.rand(2 + turn, 4, requires_grad=True)
        y, weight, z = random(speaks(x))
        lengths = torch.arange(2 + turn) % 3 + 1
        packed = packs(torch.rand(2 + turn, 3, 4), lengths)
        (hooked(y.sum() * x, torch.rand(()) + turn).sum() + z.sum() + packed.sum()).backward()
        results += [x.grad.tolist(), y.tolist(), weight.tolist(), z.tolist(), packed.tolist()]
        results += [[p.grad.tolist() for p in net.parameters()] for net in (random, packs, hooked)]
        results.append([each.tolist() for each in hooked.gradients])
    return results, SAID
