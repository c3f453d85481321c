import torch
import torch.nn as nn
import torch.nn.functional as F


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.count = 0
        self.memory = None
        self.register_buffer("ema", torch.zeros(3))
        self.register_buffer("table", torch.zeros(4, 3))

    def step(self, y):
        self.memory = (self.memory + self.lin(y)).detach()
        return self.memory

    def forward(self, x):
        self.count += 1  # how often
        y = self.lin(x)
        y = F.relu(y)
        if self.memory is None:
            self.memory = torch.zeros_like(y)
        before = self.memory
        after = self.step(y)
        self.ema = self.ema * 0.9 + y.detach().mean(0) * 0.1
        self.table[0] = y[0].detach()
        self.table[1:] += 1
        if self.count % 3 == 0:
            y = y - self.memory
        # Kept to be looked at.
        self.attention = self.lin(y)
        self.attention = F.relu(self.attention)
        seen = self.attention.detach()
        return y + before + after + seen + self.table[0]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.hidden = None

    def reset(self):
        self.hidden = None

    def forward(self, x):
        if self.hidden is None:
            self.hidden = x.new_zeros(x.size(0), 3)
        self.hidden = self.cell(x, self.hidden)
        return self.hidden


def check():
    results = []
    stateful, recurrent = Stateful(), Recurrent()
    for turn in range(7):
        if turn == 4:
            recurrent.reset()
            stateful.eval()
        out = stateful(torch.rand(2, 3))
        hidden = recurrent(torch.rand(2, 3))
        results += [out.tolist(), hidden.tolist(), stateful.attention.tolist(), stateful.count]
        out.sum().backward()
        results.append([item.grad.tolist() for item in stateful.parameters()])
    return results + [stateful.ema.tolist(), stateful.table.tolist()]
