from typing import overload
import torch
from torch import Tensor, nn
from flodl import FlowModule

class Joined(FlowModule):
    """One forward, announced for two types."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.jit._overload_method  # noqa: F811
    def flow(self, x: list[Tensor]) -> Tensor:  # noqa: F811
        pass

    @overload
    def flow(self, x: Tensor) -> Tensor: ...

    def flow(self, x):  # noqa: F811
        parts = [x] if isinstance(x, Tensor) else x
        return torch.cat(parts, 1).through(self.layer).through(torch.relu)


def check():
    torch.manual_seed(1)
    model = Joined(4)
    return [model(torch.ones(2, 4)).tolist(), model([torch.ones(3, 2), torch.zeros(3, 2)]).tolist()]
