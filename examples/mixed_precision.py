"""Mixed precision: float32 weights, bfloat16 arithmetic, and float16 where there is a GPU.

Run it: python examples/mixed_precision.py
"""

import torch
import torch.nn.functional as F
from torch import nn

from flodl import DataLoader, FlowBuilder, Trainer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_model(device: torch.device) -> nn.Module:
    """Return the model on a device."""
    flow = FlowBuilder.from_(nn.Linear(32, 128)).through(nn.GELU())
    return flow.also(nn.Linear(128, 128)).through(nn.Linear(128, 4)).build().to(device)


def train_step(model: nn.Module, batch) -> torch.Tensor:
    """Return the loss; the trainer calls this under autocast."""
    x, label = batch
    return F.cross_entropy(model(x), label)


def main() -> None:
    """Train once per precision, on the same data in the same order, and compare."""
    torch.manual_seed(0)
    x = torch.randn(4096, 32)
    label = (x @ torch.randn(32, 4)).argmax(dim=1)
    loader = DataLoader([x, label], batch_size=128, device=DEVICE)

    # float16 has few exponents: its gradients are scaled, unscaled before they are clipped, and a
    # step with infinite gradients is left out. The trainer does all three. bfloat16 needs none of it.
    for precision in (None, "bf16", "fp16") if DEVICE == "cuda" else (None, "bf16"):
        trained = (
            Trainer.builder(
                make_model, lambda params: torch.optim.AdamW(params, lr=3e-3), train_step
            )
            .dataset(loader)
            .num_epochs(5)
            .precision(precision)
            .max_grad_norm(1.0)
            .seed(0)
            .device(DEVICE)
            .progress(False)
            .run()
            .join()
        )
        losses = trained.trend("loss")
        kinds = {str(each.dtype).removeprefix("torch.") for each in trained.parameters.values()}
        name = precision or "fp32"
        print(f"{name}: loss {losses.latest:.4f}, weights {', '.join(kinds)}")


if __name__ == "__main__":
    main()
