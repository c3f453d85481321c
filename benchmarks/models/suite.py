"""Names, sizes and batches of the ten models: `tiny`, `cpu`, and the sizes `published` for GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.models import flows, plain


@dataclass(frozen=True)
class Size:
    """Arguments of the model, and the shape of its input with the batch first."""

    arguments: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One model: its two classes, what it learns, and its sizes."""

    name: str
    plain: type[nn.Module]
    flow: type[nn.Module]
    target: str
    sizes: dict[str, Size]

    def make(self, kind: str, size: str, device: str) -> nn.Module:
        """Return a model; equal seeds give equal weights whatever the kind."""
        torch.manual_seed(0)
        arguments: tuple[Any, ...] = self.sizes[size].arguments
        if kind == "flow":
            return self.flow(*arguments).to(device)
        if kind == "sdpa":
            arguments = (*arguments, False)
        return self.plain(*arguments).to(device)

    def batch(self, size: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets."""
        torch.manual_seed(1)
        shape, arguments = self.sizes[size].shape, self.sizes[size].arguments
        if self.target == "words":
            x = torch.randint(0, arguments[0], shape, device=device)
            return x, torch.randint(0, arguments[0], shape, device=device)
        x = torch.randn(shape, device=device)
        if self.target == "itself":
            return x, x.clone()
        if self.target == "classes":
            return x, torch.randn(shape[0], arguments[-1], device=device)
        return x, torch.randn(shape[0], shape[-1], device=device)

    def loss(self) -> Callable[[nn.Module, Any], torch.Tensor]:
        """Return the train function."""
        return _words if self.target == "words" else _squares


def _words(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def _squares(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def sizes(tiny: Size, cpu: Size, published: Size) -> dict[str, Size]:
    return {"tiny": tiny, "cpu": cpu, "published": published}


CASES = (
    Case(
        "transformer", plain.Transformer, flows.Transformer, "words",
        sizes(
            Size((16, 8, 16, 2, 4, 8), (4, 8)),
            Size((1000, 128, 512, 4, 4, 64), (8, 64)),
            Size((8192, 512, 2048, 8, 4, 128), (32, 128)),
        ),
    ),
    Case(
        "mlp", plain.Mlp, flows.Mlp, "vector",
        sizes(
            Size((8, 8), (4, 8)), Size((256, 512), (64, 256)), Size((1024, 2048), (256, 1024))
        ),
    ),
    Case(
        "residual_tower", plain.ResidualTower, flows.ResidualTower, "vector",
        sizes(
            Size((8, 12), (4, 8)), Size((256, 12), (64, 256)), Size((1024, 12), (256, 1024))
        ),
    ),
    Case(
        "feedback_fixed", plain.Refining, flows.Refining, "vector",
        sizes(Size((8, 10), (4, 8)), Size((128, 10), (32, 128)), Size((512, 10), (128, 512))),
    ),
    Case(
        "gated_routing", plain.GatedRouting, flows.GatedRouting, "vector",
        sizes(Size((8, 8), (4, 8)), Size((128, 8), (64, 128)), Size((512, 8), (256, 512))),
    ),
    Case(
        "iterative_refine", plain.Refining, flows.Refining, "vector",
        sizes(Size((8, 8), (4, 8)), Size((256, 8), (64, 256)), Size((1024, 8), (256, 1024))),
    ),
    Case(
        "gru_seq", plain.GruSeq, flows.GruSeq, "vector",
        sizes(
            Size((8, 8, 50), (4, 50, 8)), Size((64, 128, 50), (32, 50, 64)),
            Size((256, 512, 50), (128, 50, 256)),
        ),
    ),
    Case(
        "conv_autoenc", plain.ConvAutoencoder, flows.ConvAutoencoder, "itself",
        sizes(
            Size((4, 8, 8, 8), (2, 3, 32, 32)), Size((8, 16, 32, 64), (4, 3, 64, 64)),
            Size((64, 128, 256, 512), (64, 3, 64, 64)),
        ),
    ),
    Case(
        "lstm_seq", plain.LstmSeq, flows.LstmSeq, "vector",
        sizes(
            Size((8, 8), (4, 10, 8)), Size((64, 128), (32, 50, 64)),
            Size((256, 512), (128, 50, 256)),
        ),
    ),
    Case(
        "convnet", plain.ConvNet, flows.ConvNet, "classes",
        sizes(
            Size((4, 8, 8, 8, 10), (4, 3, 16, 16)), Size((8, 16, 32, 64, 10), (8, 3, 32, 32)),
            Size((64, 128, 256, 512, 100), (128, 3, 64, 64)),
        ),
    ),
)  # fmt: skip
