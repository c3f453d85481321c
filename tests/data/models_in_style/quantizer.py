"""Vector quantization: codes updated by running means in train mode, straight-through gradients, code reset."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("inited", torch.Tensor([False]))
        self.register_buffer("embed", torch.zeros(5, 4))
        self.register_buffer("cluster_size", torch.zeros(5))
        self.decay, self.threshold, self.commitment = 0.8, 0.3, 1.0

    def init_embed_(self, data):
        if self.inited:
            return
        idx = torch.randint(0, data.shape[0], (5,))
        self.embed.data.copy_(data[idx])
        self.cluster_size.data.fill_(1.0)
        self.inited.data.copy_(torch.Tensor([True]))

    def expire_codes_(self, samples):
        if self.threshold == 0:
            return
        expired = self.cluster_size < self.threshold
        if not torch.any(expired):
            return
        picks = samples[torch.randint(0, samples.shape[0], (5,))]
        self.embed.data.copy_(torch.where(expired[..., None], picks, self.embed))

    def forward(self, x):
        shape, dtype = x.shape, x.dtype
        flat = self.encoder(x).reshape(-1, shape[-1])
        self.init_embed_(flat.detach())
        embed = self.embed.t()
        dist = -(flat.pow(2).sum(1, keepdim=True) - 2 * flat @ embed + embed.pow(2).sum(0, keepdim=True))
        ind = dist.max(dim=-1).indices
        onehot = F.one_hot(ind, 5).type(dtype)
        quantize = F.embedding(ind, self.embed)
        if self.training:
            self.cluster_size.data.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
            self.embed.data.lerp_((flat.detach().t() @ onehot).t() / (onehot.sum(0)[:, None] + 1e-5), 0.2)
            self.expire_codes_(flat.detach())
        loss = torch.tensor([0.0], requires_grad=self.training)
        if self.training and self.commitment > 0:
            loss = loss + F.mse_loss(quantize.detach(), flat) * self.commitment
        quantize = flat + (quantize - flat).detach()
        return self.decoder(quantize.view(shape)), ind.view(shape[:-1]), loss


def inputs(rows):
    return (torch.randn(rows, 2, 4),), {}


CHANGES = {"threshold": lambda net: setattr(net, "threshold", 0), "reset": lambda net: net.inited.zero_(),
           "commitment": lambda net: setattr(net, "commitment", 0.0)}
