import torch
from torch import nn


class Sampler(nn.Module):
    def forward(self, labels):
        # type: (list[torch.Tensor]) -> torch.Tensor
        return torch.cat([each * 2 for each in labels])


class Heads(nn.Module):
    """Types in comments, as old TorchScript code has them."""

    def __init__(self):
        super().__init__()
        self.layer, self.sampler = nn.Linear(4, 4), Sampler()

    def subsample(self, labels, scale):
        # type: (list[Tensor], float) -> list[Tensor]
        found = self.sampler(labels)
        return found * scale

    def spread(self, x):
        # type: (...) -> list[Tensor]
        return [x, self.layer(x)]

    def forward(self, x):  # type: (Tensor) -> Tensor
        return self.subsample(self.spread(x), 0.5)  # type: ignore[misc]


def check():
    torch.manual_seed(1)
    return Heads()(torch.randn(2, 4)).tolist()
