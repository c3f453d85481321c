"""Longformer's questions: `.any().item()` decides about a way, `.max().item()` about a size."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.local, self.wide = nn.Linear(4, 4), nn.Linear(4, 4)
        self.pad_token_id = 1
        self.window = 2

    def _pad_to_window(self, x, mask):
        padding_len = (self.window - x.shape[1] % self.window) % self.window
        if padding_len > 0:
            x = F.pad(x, (0, 0, 0, padding_len))
            mask = F.pad(mask, (0, padding_len), value=False)
        return padding_len, x, mask

    def forward(self, x, mask):
        padding_len, x, mask = self._pad_to_window(x, mask)
        is_index_global_attn = mask > 0
        is_global_attn = is_index_global_attn.flatten().any().item()
        out = self.local(x)
        if is_global_attn:
            num_global = is_index_global_attn.long().sum(dim=1)
            max_num = num_global.max().item()
            idx = torch.arange(max_num) < num_global.unsqueeze(-1)
            picked = out.new_zeros(x.size(0), max_num, 4)
            picked[idx.nonzero(as_tuple=True)] = x[is_index_global_attn.nonzero(as_tuple=True)]
            out = out + self.wide(picked).sum(1, keepdim=True)
        else:
            assert not is_index_global_attn.any(), "no global attention"
        if padding_len > 0:
            out = out[:, :-padding_len]
        return out


def inputs(rows):
    return (torch.randn(rows, 5, 4), torch.randint(0, 2, (rows, 5))), {}


def second_inputs(rows):
    return (torch.randn(rows, 4, 4), torch.zeros(rows, 4, dtype=torch.long)), {}


CHANGES = {"window": lambda net: setattr(net, "window", 4)}
