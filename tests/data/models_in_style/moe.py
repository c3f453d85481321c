"""A mixture of experts: indices by `torch.where`, experts without tokens skipped, losses kept on the object."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3, bias=False)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.shared = nn.Linear(4, 4)
        self.top_k, self.norm_topk_prob, self.jitter_noise = 2, True, 0.1
        self.aux_loss = None
        self.register_buffer("load", torch.zeros(3), persistent=False)

    def forward(self, hidden_states):
        batch, length, dim = hidden_states.shape
        if self.training and self.jitter_noise > 0:
            hidden_states = hidden_states * torch.empty_like(hidden_states).uniform_(1 - self.jitter_noise, 1 + self.jitter_noise)
        hidden_states = hidden_states.view(-1, dim)
        logits = self.gate(hidden_states)
        weights, selected = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), self.top_k, dim=-1)
        if self.norm_topk_prob:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights.to(hidden_states.dtype)
        final = torch.zeros((batch * length, dim), dtype=hidden_states.dtype)
        mask = F.one_hot(selected, num_classes=3).permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for expert_idx in hit:
            expert = self.experts[expert_idx]
            idx, top_x = torch.where(mask[expert_idx].squeeze(0))
            current = expert(hidden_states[None, top_x].reshape(-1, dim)) * weights[top_x, idx, None]
            final.index_add_(0, top_x, current.to(hidden_states.dtype))
        for i, expert in enumerate(self.experts):
            count = (selected == i).sum()
            if count == 0:
                continue
            self.load[i] += count
            if count.item() > 2:
                final = final + expert(hidden_states) * 0.1
        self.aux_loss = logits.logsumexp(-1).pow(2).mean()
        return final.reshape(batch, length, dim) + self.shared(hidden_states).view(batch, length, -1), self.aux_loss


def inputs(rows):
    return (torch.randn(rows, 2, 4),), {}


def second_inputs(rows):
    return (torch.ones(rows, 1, 4),), {}


CHANGES = {"top": lambda net: setattr(net, "top_k", 1), "norm": lambda net: setattr(net, "norm_topk_prob", False),
           "noise": lambda net: setattr(net, "jitter_noise", 0), "experts": lambda net: net.experts.__setitem__(1, nn.Identity())}
