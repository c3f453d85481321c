"""A decoder whose layers fill a cache object, as transformers' `DynamicCache`."""

import torch
import torch.nn.functional as F
from torch import nn


class Cache:
    def __init__(self):
        self.keys, self.values = [], []
        self.seen_tokens = 0

    def update(self, key, value, layer_idx):
        if layer_idx == 0:
            self.seen_tokens += key.shape[-2]
        if len(self.keys) <= layer_idx:
            self.keys.append(key)
            self.values.append(value)
        else:
            self.keys[layer_idx] = torch.cat([self.keys[layer_idx], key], dim=-2)
            self.values[layer_idx] = torch.cat([self.values[layer_idx], value], dim=-2)
        return self.keys[layer_idx], self.values[layer_idx]

    def get_seq_length(self, layer_idx=0):
        if len(self.keys) <= layer_idx:
            return 0
        return self.keys[layer_idx].shape[-2]

    def __len__(self):
        return len(self.keys)


class Config:
    def __init__(self):
        self.hidden_size = 8
        self._attn = "eager"
        self.use_cache = True
        self.scale = 0.5

    @property
    def _attn_implementation(self):
        return self._attn

    @_attn_implementation.setter
    def _attn_implementation(self, value):
        self._attn = value


def eager_attention(module, q, k, v, scaling):
    weights = torch.matmul(q, k.transpose(-1, -2)) * scaling
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    weights = F.dropout(weights, p=module.dropout, training=module.training)
    return torch.matmul(weights, v), weights


def other_attention(module, q, k, v, scaling):
    return torch.matmul(torch.sigmoid(q @ k.transpose(-1, -2) * scaling), v), None


ATTENTION = {"eager": eager_attention, "other": other_attention}


class Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.q_proj, self.k_proj = nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.v_proj, self.o_proj = nn.Linear(8, 8), nn.Linear(8, 8)
        self.dropout = 0.1

    def forward(self, hidden_states, past_key_values=None, **kwargs):
        query = self.q_proj(hidden_states)
        key, value = self.k_proj(hidden_states), self.v_proj(hidden_states)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attention_interface = eager_attention
        if self.config._attn_implementation != "eager":
            attention_interface = ATTENTION[self.config._attn_implementation]
        out, weights = attention_interface(self, query, key, value, scaling=self.config.scale, **kwargs)
        return self.o_proj(out), weights


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.layers = nn.ModuleList([Attention(self.config, i) for i in range(2)])
        self.norm = nn.LayerNorm(8)
        self.gradient_checkpointing = False

    def forward(self, x, past_key_values=None, use_cache=None, output_attentions=False, **kwargs):
        use_cache = use_cache if use_cache is not None else self.config.use_cache
        if use_cache and past_key_values is None:
            past_key_values = Cache()
        past_seen = past_key_values.get_seq_length() if past_key_values is not None else 0
        position = torch.arange(past_seen, past_seen + x.shape[1], device=x.device)
        x = x + position[None, :, None]
        all_attentions = () if output_attentions else None
        for layer in self.layers:
            hidden, weights = layer(x, past_key_values=past_key_values, **kwargs)
            x = x + hidden
            if output_attentions:
                all_attentions += (weights,)
        x = self.norm(x)
        return {"last": x, "cache": past_key_values, "attentions": all_attentions}


def inputs(rows):
    return (torch.randn(rows, 3, 8),), {}


def other(net):
    net.config._attn_implementation = "other"


CHANGES = {"implementation": other, "no cache": lambda net: setattr(net.config, "use_cache", False),
           "scale": lambda net: setattr(net.config, "scale", 2.0)}
