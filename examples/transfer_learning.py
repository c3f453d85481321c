"""Transfer learning: load a part of a checkpoint, freeze it, train a new head, thaw, fine-tune.

Run it: python examples/transfer_learning.py
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from flodl import AdamW, DataLoader, FlowBuilder, Graph


def make_model(classes: int) -> Graph:
    """Return an encoder with a head for so many classes; both have a name in the tree."""
    encoder = (
        FlowBuilder.from_(nn.Linear(16, 64))
        .through(nn.GELU())
        .also(nn.Sequential(nn.Linear(64, 64), nn.GELU()))
        .label("encoder")
        .build()
    )
    return FlowBuilder.from_(encoder).through(nn.Linear(64, classes)).tag("head").build()


def make_task(samples: int, classes: int, seed: int) -> list[torch.Tensor]:
    """Return points with classes; all tasks look at the same four directions."""
    directions = torch.randn(16, 4, generator=torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 16, generator=generator)
    hidden = (x @ directions).tanh()
    return [x, (hidden @ torch.randn(4, classes, generator=generator)).argmax(dim=1)]


def train(
    model: Graph, optimizer: torch.optim.Optimizer, data: list[torch.Tensor], epochs: int
) -> None:
    """Train with a plain loop."""
    loader = DataLoader(data, batch_size=50)
    for epoch in range(epochs):
        for x, label in loader.epoch(epoch):
            loss = F.cross_entropy(model(x), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def accuracy(model: Graph, data: list[torch.Tensor]) -> float:
    """Return the share of right answers."""
    with torch.no_grad():
        return (model(data[0]).argmax(dim=1) == data[1]).float().mean().item()


def main() -> None:
    """Learn a task with many samples, then one with few."""
    torch.manual_seed(0)
    large = make_task(5000, classes=8, seed=1)
    small = make_task(2200, classes=3, seed=2)
    few, test = [each[:200] for each in small], [each[200:] for each in small]

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "encoder.fdl"
        teacher = make_model(8)
        train(teacher, AdamW(teacher.parameters(), lr=3e-3), large, epochs=15)
        teacher.subgraph("encoder").save_checkpoint(file)

        model = make_model(3)
        print("encoder:", model.load_subgraph_checkpoint("encoder", file))

    model.freeze("encoder")
    print(f"{len(model.trainable_parameters())} of {len(list(model.parameters()))} tensors train")
    train(model, AdamW(model.trainable_parameters(), lr=1e-2), few, epochs=20)
    print(f"new head on the frozen encoder: {accuracy(model, test):.1%}")

    model.thaw("encoder")
    optimizer = (
        AdamW.with_groups()
        .group(model.parameters_at("encoder"), lr=1e-4)
        .group(model.parameters_at("head"), lr=1e-3)
        .build()
    )
    train(model, optimizer, few, epochs=20)
    print(f"fine-tuned: {accuracy(model, test):.1%}")

    scratch = make_model(3)
    train(scratch, AdamW(scratch.parameters(), lr=3e-3), few, epochs=40)
    print(f"the same 200 samples from scratch: {accuracy(scratch, test):.1%}")


if __name__ == "__main__":
    main()
