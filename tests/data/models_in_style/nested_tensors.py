"""Rows of different lengths: nested tensors, padded and packed ones."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.gru = nn.GRU(4, 4, batch_first=True)

    def forward(self, x, lengths):
        rows = [row[:n] for row, n in zip(x, lengths.tolist())]
        nested = torch.nested.nested_tensor(rows)
        y = self.lin(torch.nested.to_padded_tensor(nested, 0.0))
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        packed = nn.utils.rnn.pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        packed_out, hidden = self.gru(packed)
        out, out_lengths = nn.utils.rnn.pad_packed_sequence(packed_out, batch_first=True)
        mask = torch.arange(out.size(1))[None, :] >= lengths[:, None]
        return y.masked_fill(mask.unsqueeze(-1), 0), out, out_lengths, hidden


def inputs(rows):
    return (torch.randn(rows, 5, 4), torch.randint(1, 6, (rows,))), {}


CHANGES = {}
