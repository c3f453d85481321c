import torch
from torch import nn
from flodl import FlowModule, call, subflow


class Sampler(FlowModule):
    def flow(self, labels):
        # type: (list[torch.Tensor]) -> torch.Tensor
        return torch.cat([each * 2 for each in labels])


class Heads(FlowModule):
    """Types in comments, as old TorchScript code has them."""

    def __init__(self):
        super().__init__()
        self.layer, self.sampler = nn.Linear(4, 4), Sampler()

    @subflow
    def subsample(self, labels, scale):
        # type: (list[Tensor], float) -> list[Tensor]
        return call(self.sampler, labels) * scale

    @subflow
    def spread(self, x):
        # type: (...) -> list[Tensor]
        return [x, x.through(self.layer)]

    def flow(self, x):  # type: (Tensor) -> Tensor
        return self.subsample(self.spread(x), 0.5)  # type: ignore[misc]


def check():
    torch.manual_seed(1)
    return Heads()(torch.randn(2, 4)).tolist()
