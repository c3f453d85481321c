"""The network, written as a flow graph."""

import torch.nn.functional as F
from flodl import Flow, FlowModule
from torch import nn

from {{ package }}.config import Config


class Block(FlowModule):
    """A residual block: normalise, widen, activate, drop, narrow, and add the input."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * width)
        self.drop = nn.Dropout(dropout)
        self.narrow = nn.Linear(2 * width, width)

    def flow(self, x: Flow) -> Flow:
        """Describe the block; `also` is `x + stage(x)`."""
        return x.also((self.norm, self.widen, F.gelu, self.drop, self.narrow))


class Classifier(FlowModule):
    """Features in, one score per class out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.model.width
        self.stem = nn.Linear(config.data.features, width)
        self.blocks = nn.ModuleList(
            Block(width, config.model.dropout) for _ in range(config.model.blocks)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, config.data.classes)

    def flow(self, x: Flow) -> Flow:
        """Describe the network; the tag `features` names what the head reads."""
        features = x.through(self.stem).through(self.blocks).through(self.norm).tag("features")
        return features.through(self.head)


def build_model(config: Config) -> nn.Module:
    """Return a fresh model; seed first if its weights must be reproducible."""
    return Classifier(config)
