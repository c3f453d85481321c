"""Windows and shifts: masks made by sizes and kept in a dict, buffers by index, rolls, padded sizes."""

import torch
import torch.nn.functional as F
from torch import nn


def window_partition(x, ws):
    B, L, C = x.shape
    return x.view(B, L // ws, ws, C).reshape(-1, ws, C)


def window_reverse(windows, ws, L):
    return windows.view(-1, L // ws, ws, windows.shape[-1]).reshape(-1, L, windows.shape[-1])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.window_size, self.shift_size = 2, 1
        self.qkv = nn.Linear(4, 12)
        self.relative_position_bias_table = nn.Parameter(torch.randn(3, 1))
        coords = torch.arange(2)
        self.register_buffer("relative_position_index", coords[:, None] - coords[None, :] + 1)
        self.masks = {}
        self.attn_mask = None

    def calculate_mask(self, length):
        mask = torch.zeros(1, length, 1)
        count = 0
        for piece in (slice(0, -self.window_size), slice(-self.window_size, -self.shift_size), slice(-self.shift_size, None)):
            mask[:, piece] = count
            count += 1
        windows = window_partition(mask, self.window_size).squeeze(-1)
        mask = windows.unsqueeze(1) - windows.unsqueeze(2)
        return mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)

    def get_mask(self, length):
        if self.shift_size == 0:
            return None
        if length not in self.masks:
            self.masks[length] = self.calculate_mask(length)
        return self.masks[length]

    def get_bias(self):
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        return bias.view(self.window_size, self.window_size, -1).permute(2, 0, 1).contiguous()

    def forward(self, x):
        B, L, C = x.shape
        pad = (self.window_size - L % self.window_size) % self.window_size
        x = F.pad(x, (0, 0, 0, pad))
        length = L + pad
        if self.shift_size > 0:
            x = torch.roll(x, -self.shift_size, 1)
        q, k, v = self.qkv(window_partition(x, self.window_size)).chunk(3, -1)
        attn = q @ k.transpose(-2, -1) + self.get_bias()
        mask = self.get_mask(length)
        if mask is not None:
            n = mask.shape[0]
            attn = (attn.view(B, n, *attn.shape[1:]) + mask.unsqueeze(0)).flatten(0, 1)
        x = window_reverse(attn.softmax(-1) @ v, self.window_size, length)
        if self.shift_size:
            x = torch.roll(x, self.shift_size, 1)
        return x[:, :L].contiguous() if pad else x


def inputs(rows):
    return (torch.randn(rows, 5, 4),), {}


def second_inputs(rows):
    return (torch.randn(rows, 4, 4),), {}


CHANGES = {"shift": lambda net: setattr(net, "shift_size", 0), "masks": lambda net: net.masks.clear(),
           "index": lambda net: net.relative_position_index.zero_()}
