"""Observation: name values, watch their course over the epochs, and let the course decide.

Run it: python examples/observation.py
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import DataLoader, Flow, FlowModule


class Net(FlowModule):
    """A classifier whose hidden values have names."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.encoder = nn.Linear(20, 48)
        self.head = nn.Linear(48, 3)

    def flow(self, x: Flow) -> Flow:
        """Describe what happens to `x`; a tag gives the value before it a name."""
        hidden = x.through((self.encoder, F.relu)).tag("hidden")
        return hidden.through(self.head).tag("logits")


def main() -> None:
    """Train until the trends say that it is enough."""
    torch.manual_seed(0)
    x = torch.randn(1500, 20)
    label = (x[:, :3] + 0.3 * torch.randn(1500, 3)).argmax(dim=1)
    training = DataLoader([x[:1200], label[:1200]], batch_size=60)
    model = Net()
    view = flodl.view(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    for epoch in range(60):
        for batch, target in training.epoch(epoch):
            logits = model(batch)
            loss = F.cross_entropy(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # What was tagged is there after the forward, cut off from autograd.
            alive = (view.tagged("hidden") > 0).float().mean()
            view.record_scalar("loss", loss.item())
            view.record_scalar("alive", alive.item())
            view.end_step()
        with torch.no_grad():
            right = (model(x[1200:]).argmax(dim=1) == label[1200:]).float().mean()
        view.record_scalar("accuracy", right.item())
        view.end_epoch()

        loss_course, accuracy_course = view.trend("loss"), view.trend("accuracy")
        if epoch % 3 == 2:
            print(
                f"epoch {epoch + 1}: loss {loss_course.latest:.4f} (slope {loss_course.slope(5):+.4f}), "
                f"accuracy {accuracy_course.latest:.3f}, {view.trend('alive').latest:.0%} alive"
            )
        if loss_course.stalled(5, 1e-3):
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        if accuracy_course.stalled(8, 2e-3):
            print(f"epoch {epoch + 1}: the accuracy stays where it is")
            break

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        view.export_trends(folder / "trends.csv")
        view.plot_html(folder / "curves.html", ["loss", "accuracy", "alive"])
        print((folder / "trends.csv").read_text().splitlines()[0])


if __name__ == "__main__":
    main()
