"""Integer inputs: ids, bucketed positions, one-hot, counts, shifts and divisions."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.bias = nn.Embedding(20, 4), nn.Embedding(8, 1)
        self.padding_idx = 1
        self.bidirectional = True
        self.num_buckets = 8

    @staticmethod
    def _bucket(relative_position, bidirectional=True, num_buckets=8, max_distance=16):
        buckets = 0
        if bidirectional:
            num_buckets //= 2
            buckets += (relative_position > 0).to(torch.long) * num_buckets
            relative_position = torch.abs(relative_position)
        else:
            relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
        max_exact = num_buckets // 2
        is_small = relative_position < max_exact
        large = max_exact + (
            torch.log(relative_position.float() / max_exact) / math.log(max_distance / max_exact)
            * (num_buckets - max_exact)
        ).to(torch.long)
        large = torch.min(large, torch.full_like(large, num_buckets - 1))
        buckets += torch.where(is_small, relative_position, large)
        return buckets

    def position_ids(self, input_ids, past=0):
        mask = input_ids.ne(self.padding_idx).int()
        incremental = (torch.cumsum(mask, dim=1).type_as(mask) + past) * mask
        return incremental.long() + self.padding_idx

    def forward(self, input_ids, token_type_ids=None):
        seq = input_ids.shape[-1]
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        position = torch.arange(seq)[None, :] - torch.arange(seq)[:, None]
        bias = self.bias(self._bucket(position, self.bidirectional, self.num_buckets)).squeeze(-1)
        x = self.words(input_ids) + self.words(self.position_ids(input_ids) % 20)
        counts = torch.bincount(input_ids.flatten(), minlength=20)
        one_hot = F.one_hot(token_type_ids, 2) << 1
        return bias @ x + one_hot.sum(-1, keepdim=True), counts, input_ids // 3, (input_ids & 1).bool()


def inputs(rows):
    return (torch.randint(0, 20, (rows, 6)),), {}


def second_inputs(rows):
    return (torch.randint(0, 20, (rows, 4)), torch.ones(rows, 4, dtype=torch.long)), {}


CHANGES = {"direction": lambda net: setattr(net, "bidirectional", False), "padding": lambda net: setattr(net, "padding_idx", 0)}
