"""Regression with a loop of your own, and a checkpoint that gives back every bit.

Run it: python examples/sine_wave.py
"""

import math
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from flodl import DataLoader, FlowBuilder, Graph


def make_model() -> Graph:
    """Return a small network from one number to one number."""
    return (
        FlowBuilder.from_(nn.Linear(1, 32))
        .through(nn.Tanh())
        .also(nn.Sequential(nn.Linear(32, 32), nn.Tanh()))
        .through(nn.Linear(32, 1))
        .label("sine")
        .build()
    )


def main() -> None:
    """Learn the sine, save the model, load it into another one, and compare."""
    torch.manual_seed(0)
    x = torch.rand(2000, 1) * 4 * math.pi - 2 * math.pi
    model = make_model()
    model.set_data_loader(DataLoader([x, x.sin()], batch_size=100, names=["x", "y"]), "x")

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(60):
        for batch in model.epoch(epoch):
            loss = F.mse_loss(model.forward_batch(batch), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.record_scalar("loss", loss.item())
        model.end_epoch()
        if epoch % 15 == 14:
            print(f"epoch {epoch + 1}: loss {model.trend('loss').latest:.5f}")

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sine.fdl"
        model.save_checkpoint(file)
        twin = make_model()
        print(f"checkpoint: {twin.load_checkpoint(file)}, {file.stat().st_size} bytes")

    grid = torch.linspace(-2 * math.pi, 2 * math.pi, 9).unsqueeze(1)
    with torch.no_grad():
        assert torch.equal(model(grid), twin(grid))
        for point, value in zip(
            grid.flatten().tolist(), twin(grid).flatten().tolist(), strict=True
        ):
            print(f"sin({point:6.3f}) = {math.sin(point):6.3f}, learnt: {value:6.3f}")


if __name__ == "__main__":
    main()
