"""Decoding loops: tokens appended until all are finished, best-first queues, python lists of scores."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(6, 4), nn.GRUCell(4, 4), nn.Linear(4, 6)
        self.eos, self.max_len, self.num_beams = 1, 5, 2

    def step(self, token, hidden):
        hidden = self.cell(self.embed(token), hidden)
        return F.log_softmax(self.out(hidden), dim=-1), hidden

    def greedy(self, hidden):
        token = torch.zeros(hidden.size(0), dtype=torch.long)
        unfinished = torch.ones_like(token)
        tokens = []
        while True:
            scores, hidden = self.step(token, hidden)
            token = scores.argmax(-1) * unfinished + self.eos * (1 - unfinished)
            tokens.append(token)
            unfinished = unfinished * (token != self.eos).long()
            if unfinished.max() == 0 or len(tokens) >= self.max_len:
                break
        return torch.stack(tokens, dim=1)

    def beam(self, hidden):
        beams = [([0], 0.0, hidden)]
        for _ in range(self.max_len):
            candidates = []
            for tokens, score, h in beams:
                if tokens[-1] == self.eos:
                    candidates.append((tokens, score, h))
                    continue
                scores, new = self.step(torch.tensor([tokens[-1]]), h)
                top, idx = scores[0].topk(self.num_beams)
                for s, i in zip(top.tolist(), idx.tolist()):
                    candidates.append((tokens + [i], score + s, new))
            beams = sorted(candidates, key=lambda c: c[1], reverse=True)[: self.num_beams]
        return [(tokens, score) for tokens, score, _ in beams]

    def forward(self, hidden, beam=False):
        if beam:
            return [self.beam(h[None]) for h in hidden]
        return self.greedy(hidden)


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 4),), {"beam": True}


CHANGES = {"length": lambda net: setattr(net, "max_len", 3), "beams": lambda net: setattr(net, "num_beams", 3),
           "end": lambda net: net.out.bias.data[1].fill_(9.0)}
