"""From data to a trained model in one page: a residual network learns to tell two spirals apart.

Run it: python examples/quickstart.py
It writes runs/quickstart: checkpoints, metrics, and a page with the curves.
"""

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from flodl import DataLoader, FlowBuilder, Monitor, Trainer

EPOCHS = 20


def spirals(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points on two spirals that wind around each other, and which spiral each is on."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(0, 2, (samples,), generator=generator)
    turn = torch.rand(samples, generator=generator) * 3 * math.pi + 0.5
    angle = turn + label * math.pi
    points = torch.stack((turn * angle.cos(), turn * angle.sin()), dim=1) / 10
    return points + 0.01 * torch.randn(samples, 2, generator=generator), label


def block(width: int) -> nn.Module:
    """Return what one residual step adds to its input."""
    return nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)
    )


def make_model() -> nn.Module:
    """Return the model: `also` adds the result of a module to what it was given."""
    return (
        FlowBuilder.from_(nn.Linear(2, 64))
        .also(block(64))
        .also(block(64))
        .tag("features")
        .through(nn.Linear(64, 2))
        .label("spirals")
        .build()
    )


def train_step(model: nn.Module, batch):
    """Return the loss of a batch, and what else is worth a curve."""
    logits = model(batch["point"])
    loss = F.cross_entropy(logits, batch["label"])
    accuracy = (logits.argmax(dim=1) == batch["label"]).float().mean()
    return loss, {"accuracy": accuracy.detach()}


def main() -> None:
    """Train, and say how well it went."""
    names = ["point", "label"]
    training = DataLoader(spirals(4000, seed=0), batch_size=128, names=names)
    test = DataLoader(spirals(1000, seed=1), batch_size=500, names=names, shuffle=False)

    run = Path("runs") / "quickstart"
    monitor = Monitor(EPOCHS, run=run)
    trained = (
        Trainer.builder(make_model, lambda params: torch.optim.AdamW(params, lr=3e-3), train_step)
        .dataset(training)
        .evaluate(test)
        .num_epochs(EPOCHS)
        .seed(0)
        .run_dir(run)
        .resume()
        .monitor(monitor)
        .run()
        .join()
    )
    monitor.save_html(run / "curves.html")
    print(f"{trained.steps} steps, {trained.stopped_by}; {trained.decision}")

    model = trained.load_into(make_model()).eval()
    points, labels = spirals(1000, seed=1)
    right = (model(points).argmax(dim=1) == labels).float().mean()
    print(f"right: {right:.1%} of points that it has not seen")


if __name__ == "__main__":
    main()
