"""Learning rates: schedules are functions of the step, so they can be printed before anything trains.

Run it: python examples/schedulers.py
"""

import torch
import torch.nn.functional as F
from torch import nn

from flodl import (
    CosineScheduler,
    DataLoader,
    FlowBuilder,
    OneCycleLR,
    PlateauScheduler,
    StepDecay,
    Trainer,
    WarmupScheduler,
)

EPOCHS, BATCHES = 10, 16
STEPS = EPOCHS * BATCHES


def make_model() -> nn.Module:
    """Return a small regressor."""
    return FlowBuilder.from_(nn.Linear(8, 32)).through(nn.GELU()).through(nn.Linear(32, 1)).build()


def train_step(model: nn.Module, batch) -> torch.Tensor:
    """Return the loss of a batch."""
    x, y = batch
    return F.mse_loss(model(x), y)


def curve(schedule) -> str:
    """Return a schedule as a line of bars."""
    rates = [schedule.lr(step) for step in range(0, STEPS, STEPS // 40)]
    return "".join(" .:-=+*#%@"[min(9, int(rate / max(rates) * 9.99))] for rate in rates)


def main() -> None:
    """Show some schedules, then train with each."""
    cosine = CosineScheduler(base=1e-2, minimum=1e-4, total_steps=STEPS - 16)
    schedules = {
        "step decay": StepDecay(base=1e-2, step_size=STEPS // 4, gamma=0.5),
        "warm-up + cosine": WarmupScheduler(cosine, target=1e-2, warmup_steps=16),
        "one cycle": OneCycleLR(max_lr=2e-2, total_steps=STEPS),
    }
    torch.manual_seed(0)
    x = torch.randn(512, 8)
    y = x[:, :4].sin().sum(dim=1, keepdim=True)
    loader = DataLoader([x, y], batch_size=512 // BATCHES)

    def trainer():
        builder = Trainer.builder(
            make_model, lambda params: torch.optim.AdamW(params, lr=1e-2), train_step
        )
        return builder.dataset(loader).num_epochs(EPOCHS).seed(0).step("eager").progress(False)

    for name, schedule in schedules.items():
        trained = trainer().scheduler(schedule).run().join()
        print(f"{name:<17}|{curve(schedule)}|  loss {trained.trend('loss').latest:.4f}")

    # A plateau has no curve beforehand: it halves the rate when a metric stays where it is.
    plateau = PlateauScheduler(base=5e-2, factor=0.5, patience=1)
    trained = trainer().evaluate(loader).scheduler(plateau, metric="val_loss").run().join()
    print(f"plateau: from 0.05 to {plateau.lr():.5f}, loss {trained.trend('loss').latest:.4f}")


if __name__ == "__main__":
    main()
