"""Every word of the builder in one graph: it is described, drawn, trained, observed and saved.

Run it: python examples/showcase.py
It writes runs/showcase: two pictures, a page to open and close parts, a checkpoint.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from flodl import (
    AdamW,
    Add,
    ArgmaxSelector,
    Cat,
    DataLoader,
    FlowBuilder,
    Graph,
    LoopBody,
    Mean,
    SoftmaxRouter,
    StateAdd,
    ThresholdHalt,
)

WIDTH = 8


class Attention(nn.Module):
    """Looks at a value from further up: `using` hands it over under its tag."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.mix = nn.Linear(2 * WIDTH, WIDTH)

    def forward_named(self, x: torch.Tensor, refs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Mix the stream with what it refers to."""
        return self.mix(torch.cat([x, refs["stem"]], dim=1))


class Refine(LoopBody):
    """One turn of a loop, which says how much it changed."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def step(self, x: torch.Tensor, refs: dict[str, torch.Tensor], emit) -> torch.Tensor:
        """Return the next value."""
        after = x + 0.1 * self.layer(x).tanh()
        emit.publish("change", (after - x).norm().detach())
        return after


def make_stem() -> Graph:
    """Return a graph with a label; nested in another one it keeps its name, its tags and its pictures."""
    return (
        FlowBuilder.new()
        .through(nn.Linear(4, WIDTH)).tag("_raw")
        .internal("_raw")
        .through(nn.GELU()).tag("activated")
        .label("stem")
        .build()
    )  # fmt: skip


def make_model() -> Graph:
    """Return the graph; one line is one step."""
    return (
        FlowBuilder.from_(make_stem()).tag("stem")
        .input("context")                                               # a second input of the graph
        .fork(nn.Linear(WIDTH, 1)).tag("glimpse")                       # a side result; the stream goes on
        .also(nn.Linear(WIDTH, WIDTH))                                  # x + f(x)
        .also_with(skip=nn.Linear(WIDTH, WIDTH), main=nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()))
        .split(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)).tag_group("heads")
        .merge(Mean())
        .through(Attention()).using("stem")                             # a value from further up
        .through(lambda x, context: x + context).using("context")       # any function is a step
        .gate(SoftmaxRouter(WIDTH, 2), nn.Linear(WIDTH, WIDTH), nn.Tanh())         # all, weighted
        .switch(ArgmaxSelector(WIDTH, 2), nn.Linear(WIDTH, WIDTH), nn.Identity())  # one per sample
        .loop_body(Refine()).for_n(3).tag("refined")
        .loop_body(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())).while_cond(ThresholdHalt(5.0), 3)
        .loop_body(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())).until_cond(ThresholdHalt(0.1), 3)
        .map(nn.Linear(WIDTH // 2, 3)).slices(2)                        # each half of the features
        .map(nn.Linear(6, WIDTH)).batched().each()                      # each sample, all at once
        .tag("parts")
        .map(nn.LayerNorm(WIDTH)).over("parts")
        .through(StateAdd()).using("memory").tag("memory")              # the value of the last call
        .initial("memory", lambda x: torch.zeros_like(x))
        .split(nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 1))
        .merge(Cat(dim=1))
        .split(nn.Identity(), nn.Tanh()).merge(Add())
        .map(nn.Softsign()).along(1)                                    # each slice of a dimension
        .through(nn.Linear(3, 1)).tag("answer")
        .label("showcase")
        .build(torch.zeros(2, 4), torch.zeros(2, WIDTH))                # checks the shapes as well
    )  # fmt: skip


def main() -> None:
    """Use what a graph can do."""
    torch.manual_seed(0)
    folder = Path("runs") / "showcase"
    folder.mkdir(parents=True, exist_ok=True)
    model = make_model()
    print(model.tree_summary())
    model.svg(folder / "graph.svg")
    model.html(folder / "graph.html")

    x, context = torch.randn(640, 4), torch.randn(640, WIDTH)
    loader = DataLoader([x, context, x.sum(dim=1, keepdim=True)], 32, names=["x", "context", "y"])
    model.set_data_loader(loader)
    optimizer = AdamW(model.parameters(), lr=1e-2)
    for epoch in range(15):
        for batch in model.epoch(epoch):
            model.end_sequence()  # the first call of a sequence has no memory, the second one has
            model.forward_batch(batch)
            loss = F.mse_loss(model.forward_batch(batch), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.record_scalar("loss", loss.item())
            model.end_step()  # cuts the history of the memory
        model.end_epoch()
    losses = model.trend("loss")
    print(
        f"loss from {losses.values[0]:.3f} to {losses.latest:.3f}, slope {losses.slope(10):+.3f} per epoch"
    )

    print(
        "turns of the loop changed by", [round(each.item(), 2) for each in model.traces("change")]
    )
    print(
        "tagged:",
        {name: list(model.tagged(name).shape) for name in ("glimpse", "heads_1", "stem")},
    )
    model.enable_profiling()
    model.end_sequence()
    model(x, context)
    model.svg_with_profile(folder / "times.svg")
    model.disable_profiling()

    model.freeze("stem")
    print(f"frozen: {model.is_frozen('stem')}, {len(model.trainable_parameters())} tensors train")
    model.save_checkpoint(folder / "model.fdl")
    twin = make_model()
    print(f"checkpoint: {twin.load_checkpoint(folder / 'model.fdl')}")
    model.end_sequence()
    assert torch.equal(twin(x, context), model(x, context))


if __name__ == "__main__":
    main()
