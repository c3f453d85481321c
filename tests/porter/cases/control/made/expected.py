import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from flodl import FlowModule, call

SAID = []
logger = logging.Logger("case")
handler = logging.Handler()
handler.emit = lambda record: SAID.append(record.getMessage())
logger.addHandler(handler)


class Keeper:
    """Keeps what is printed."""

    write = staticmethod(SAID.append)


class Speaks(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.name = "speaks"

    def flow(self, x):
        y = x.through(self.a)
        call(
            lambda self, x, y: logger.info(f"{self.name}: mean {y.detach().mean():.4f} of {x.shape}"),
            self,
            x,
            y,
        )  # every call
        for i, row in enumerate(y.unbind(0)):
            call(lambda i, row: logger.info("%s has norm %.3f" % (i, row.detach().norm())), i, row)
        call(lambda y: logger.info("max {:.3f}".format(y.max().item())), y)
        call(lambda x: print(f"{x.dim()} dimensions", file=Keeper), x)
        return F.relu(y)


class Random(FlowModule):
    """Its layers are new in every call."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.width = 3

    def flow(self, x):
        head = call(lambda self, x: nn.Linear(x.size(1), self.width), self, x)
        y = call(call(lambda: nn.BatchNorm1d(4)), x.through(self.a))
        stack = call(lambda head, self: nn.Sequential(self.a, nn.ReLU(), head), head, self)
        return (
            y.through(nn.Dropout(0.5)).through(stack),
            head.weight,
            x.through(call(lambda: Speaks())),
        )


class Packs(FlowModule):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 3, batch_first=True)
        self.drop = nn.Dropout(0.5)

    def flow(self, x, lengths):
        packed = x.through(pack_padded_sequence, lengths, batch_first=True, enforce_sorted=False)
        out, _ = (
            packed.data
            .through(self.drop)
            .through(
                PackedSequence, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
            )
            .through(self.rnn)
        )
        return out.through(pad_packed_sequence, batch_first=True)[0]


class Hooked(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.gradients = []

    def keep(self, gradient):
        self.gradients.append(gradient)

    def flow(self, x, scale):
        y = x.through(self.a)
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
