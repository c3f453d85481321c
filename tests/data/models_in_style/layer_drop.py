"""An encoder of speech: layer drop in train mode, masks in place, questions about values."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 6)
        self.dropout = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(6)

    def forward(self, hidden_states, attention_mask=None, output_attentions=False):
        residual = hidden_states
        hidden_states = self.dropout(F.gelu(self.fc1(hidden_states)))
        hidden_states = residual + self.fc2(hidden_states)
        if attention_mask is not None:
            hidden_states = hidden_states * attention_mask
        outputs = (self.norm(hidden_states),)
        if output_attentions:
            outputs += (hidden_states.mean(-1),)
        return outputs


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(3)])
        self.layerdrop = 0.5
        self.mask_time_prob = 0.3
        self.masked_spec_embed = nn.Parameter(torch.zeros(6).uniform_())

    def _mask_hidden_states(self, hidden_states, mask_time_indices=None):
        if not self.mask_time_prob > 0:
            return hidden_states
        rows, length, _ = hidden_states.size()
        if mask_time_indices is not None:
            hidden_states[mask_time_indices] = self.masked_spec_embed.to(hidden_states.dtype)
        elif self.training:
            mask_time_indices = torch.rand(rows, length) < self.mask_time_prob
            hidden_states[mask_time_indices] = self.masked_spec_embed.to(hidden_states.dtype)
        return hidden_states

    def forward(self, input_values, attention_mask=None, output_hidden_states=False, return_dict=True):
        hidden_states = self._mask_hidden_states(input_values * 1)
        all_hidden_states = () if output_hidden_states else None
        if attention_mask is not None:
            expand = attention_mask.unsqueeze(-1).repeat(1, 1, hidden_states.shape[2])
            hidden_states[~expand] = 0
            attention_mask = attention_mask.unsqueeze(-1).to(hidden_states.dtype)
        for layer in self.layers:
            if output_hidden_states:
                all_hidden_states = all_hidden_states + (hidden_states,)
            dropout_probability = torch.rand([])
            skip_the_layer = True if self.training and (dropout_probability < self.layerdrop) else False
            if not skip_the_layer:
                layer_outputs = layer(hidden_states, attention_mask=attention_mask)
                hidden_states = layer_outputs[0]
            if skip_the_layer:
                layer_outputs = (None, None)
        if not return_dict:
            return tuple(v for v in [hidden_states, all_hidden_states] if v is not None)
        return {"last": hidden_states, "all": all_hidden_states}


def inputs(rows):
    return (torch.randn(rows, 5, 6),), {}


def second_inputs(rows):
    mask = torch.ones(rows, 5, dtype=torch.bool)
    mask[0, 3:] = False
    return (torch.randn(rows, 5, 6), mask), {"output_hidden_states": True, "return_dict": False}


CHANGES = {"layerdrop": lambda net: setattr(net, "layerdrop", 0.0),
           "mask": lambda net: setattr(net, "mask_time_prob", 0.0)}
