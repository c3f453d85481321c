"""T5's guards under autocast: clamp of infinite halves, `is_autocast_enabled`, blocks of another dtype."""

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            hidden_states = hidden_states.to(self.weight.dtype)
        return self.weight * hidden_states


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(4)
        self.wi, self.wo = nn.Linear(4, 6, bias=False), nn.Linear(6, 4, bias=False)

    def forward(self, x):
        if not torch.is_autocast_enabled("cpu"):
            x = x * 1.5
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=self.training):
            hidden = self.wi(self.norm(x))
        hidden = F.relu(hidden)
        if (
            isinstance(self.wo.weight, torch.Tensor)
            and hidden.dtype != self.wo.weight.dtype
            and self.wo.weight.dtype != torch.int8
        ):
            hidden = hidden.to(self.wo.weight.dtype)
        with torch.autocast(device_type="cpu", enabled=False):
            hidden = self.wo(hidden)
        if hidden.dtype == torch.float64 or torch.isinf(hidden).any():
            clamp_value = torch.where(
                torch.isinf(hidden).any(),
                torch.finfo(hidden.dtype).max - 1000,
                torch.finfo(hidden.dtype).max,
            )
            hidden = torch.clamp(hidden, min=-clamp_value, max=clamp_value)
        return x + hidden


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second_inputs(rows):
    return (torch.full((rows, 4), float("inf")),), {}


CHANGES = {"epsilon": lambda net: setattr(net.norm, "variance_epsilon", 0.5), "bfloat16": lambda net: net.wo.bfloat16()}
