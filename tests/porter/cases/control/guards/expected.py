import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule


def exists(value):
    return value is not None


class Attention(FlowModule):
    def __init__(self, dim=4, causal=False):
        super().__init__()
        self.causal = causal
        self.to_qkv = nn.Linear(dim, dim * 3)
        self.to_out = nn.Linear(dim, dim)
        self.context = nn.Linear(dim, dim)
        self.register_buffer("bias", torch.tril(torch.ones(8, 8)))

    def flow(self, x, context=None, mask=None):
        b, n, d = x.shape
        if exists(context):
            x = x + context.through(self.context)
        extra = context.through(self.context) if context is not None and x.size(1) > 1 else 0
        q, k, v = x.through(self.to_qkv).chunk(3, dim=-1)
        scores = q @ k.transpose(-1, -2) * d ** -0.5
        if mask is None:
            mask = torch.ones(b, 1, n, device=x.device)
        if self.causal:
            scores = scores.masked_fill(self.bias[:n, :n] == 0, float("-inf"))
        attn = scores.masked_fill(mask == 0, -1e9).softmax(dim=-1).through(
            F.dropout, 0.1, self.training
        )
        return (
            (attn @ v).through(self.to_out) + extra
            if not self.training
            else (attn @ v).through(self.to_out)
        )


def check():
    torch.manual_seed(1)
    net = Attention(causal=True)
    x = torch.randn(2, 3, 4)
    outputs = [net(x), net(x, context=x), net(x, mask=torch.ones(2, 1, 3))]
    net.eval()
    return outputs, net(x), net(x, x)
