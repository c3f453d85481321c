# %% [markdown]
# # Advanced graphs
#
# This tutorial is about graphs whose way depends on the data: loops that end by a value, samples that take different
# branches, memory from call to call, side inputs and auxiliary outputs. You should know the words of
# [the builder](05_graph_builder.py). It takes about ten minutes.
#
# ## A loop that ends by a value
#
# `while_cond(halt, limit)` tests before each iteration. `until_cond` tests after it. The loop ends when the result of
# `halt` is positive, or after `limit` iterations. Below, each iteration halves the input until it is small:

# %%
import torch
import torch.nn.functional as F
from torch import nn

from flodl import (
    Add,
    ArgmaxSelector,
    FlowBuilder,
    LoopBody,
    SoftmaxRouter,
    StateAdd,
)

torch.manual_seed(0)


class Small(nn.Module):
    def forward(self, x):
        return 1.0 - x.abs().max()


class Halve(nn.Module):
    def forward(self, x):
        return x / 2


halving = FlowBuilder.new().loop_body(Halve()).while_cond(Small(), 20).build()
print([halving(torch.tensor([value])).item() for value in (0.5, 3.0, 8.0)])

# %% [markdown]
# The condition above looks at the whole batch. With `per_sample=True` every sample ends by itself, and keeps its value
# from then on. `Small` then returns one number for each sample:


# %%
class SmallRow(nn.Module):
    def forward(self, x):
        return 1.0 - x.abs().amax(dim=1)


rows = FlowBuilder.new().loop_body(Halve()).while_cond(SmallRow(), 20, per_sample=True).build()
print(rows(torch.tensor([[0.5], [3.0], [8.0]])).flatten())

# %% [markdown]
# ## Values of each iteration
#
# A body that extends `LoopBody` may publish values. `traces` returns them after the call, one per iteration, with
# their history, so a loss can use all of them. This is deep supervision:


# %%
class Refine(LoopBody):
    def __init__(self) -> None:
        super().__init__()
        self.change = nn.Linear(4, 4)

    def step(self, x, refs, emit):
        x = x + 0.5 * torch.tanh(self.change(x))
        emit.publish("guess", x)
        return x


refine = FlowBuilder.new().loop_body(Refine()).for_n(3).build()
refine(torch.ones(2, 4))
guesses = refine.traces("guess")
loss = sum(F.mse_loss(guess, torch.zeros(2, 4)) for guess in guesses)
loss.backward()
print(len(guesses), [name for name, each in refine.named_parameters() if each.grad is not None])

# %% [markdown]
# ## One branch for each sample
#
# `switch(router, *branches)` sends each sample through the branch that the router chooses. The branches see only their
# samples, and the results are put together in the order of the batch:


# %%
class BySign(nn.Module):
    def forward(self, x):
        return (x[:, 0] < 0).long()


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.samples = factor, 0

    def forward(self, x):
        self.samples = len(x)
        return x * self.factor


positive, negative = Times(1.0), Times(-10.0)
switch = FlowBuilder.new().switch(BySign(), positive, negative).build()
print(switch(torch.tensor([[1.0], [-2.0], [3.0]])).flatten())
print(positive.samples, "and", negative.samples, "samples")

# %% [markdown]
# `ArgmaxSelector(width, count)` is a router that learns, and `SoftmaxRouter` weighs all experts in a `gate`. A switch
# inside a gate, or a loop inside a branch, is written as any other stage:

# %%
mixture = (
    FlowBuilder.from_(nn.Linear(4, 8))
    .gate(
        SoftmaxRouter(8, 2),
        (nn.Linear(8, 8), nn.GELU()),
        FlowBuilder.new().switch(ArgmaxSelector(8, 2), nn.Linear(8, 8), nn.Identity()).build(),
    )
    .through(nn.Linear(8, 2))
    .label("mixture")
    .build()
)
print(mixture)
print(mixture(torch.ones(3, 4)).shape)

# %% [markdown]
# ## Memory from call to call
#
# `using` before the `tag` of the same name reads the value of the previous call. The first call finds zeros, or
# the value of `initial`. This graph adds up its inputs:

# %%
total = FlowBuilder.from_(StateAdd()).using("total").tag("total").build()
print([total(torch.ones(1)).item() for _ in range(3)])

# %% [markdown]
# `end_step` cuts the history for backpropagation, and `end_sequence` forgets the value. Here a leaky memory with weights
# is trained over a sequence of ten steps, in pieces of five:


# %%
class Leaky(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(2, 1)

    def forward(self, x, memory):
        return torch.tanh(self.mix(torch.cat([x, memory], dim=1)))


recurrent = FlowBuilder.from_(Leaky()).using("memory").tag("memory").build()
optimizer = torch.optim.SGD(recurrent.parameters(), lr=0.1)
inputs = torch.randn(10, 3, 1)
for start in (0, 5):
    optimizer.zero_grad()
    loss = sum(recurrent(x).square().mean() for x in inputs[start : start + 5])
    loss.backward()
    optimizer.step()
    recurrent.end_step()
recurrent.end_sequence()
print([tuple(each.grad.shape) for each in recurrent.parameters()])

# %% [markdown]
# ## More inputs
#
# `input` declares further inputs of the graph. A later stage takes them with `using`, by position or by keyword:


# %%
class Pooled(nn.Module):
    def forward(self, x, mask):
        weights = mask.float().unsqueeze(-1)
        return (x * weights).sum(1) / weights.sum(1)


pooled = (
    FlowBuilder.from_(nn.Linear(4, 8)).input("mask").through(Pooled()).using(mask="mask").build()
)
tokens, mask = torch.randn(2, 5, 4), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
short = pooled(tokens[1:, :2], mask[1:, :2])
torch.testing.assert_close(pooled(tokens, mask=mask)[1:], short)
print("what the mask hides has no effect")

# %% [markdown]
# ## Auxiliary outputs
#
# `fork` runs a side branch and returns to the main stream. The tag right after it names the result of the branch. A
# group of tags names the branches of a split at once:

# %%
auxiliary = (
    FlowBuilder.from_(nn.Linear(4, 8))
    .fork(nn.Linear(8, 3))
    .tag("early_logits")
    .through(nn.GELU())
    .split(nn.Linear(8, 3), nn.Linear(8, 3))
    .tag_group("heads")
    .merge(Add())
    .build()
)
auxiliary(torch.ones(2, 4))
print(sorted(auxiliary.tag_names()))
print(auxiliary.tagged("early_logits").shape)

# %% [markdown]
# `tagged` returns detached values. For a loss on a value inside, use `run_with_cache`, which keeps the history:

# %%
output, cache = auxiliary.run_with_cache(torch.ones(2, 4), names="early_logits")
(output.square().mean() + 0.3 * cache["early_logits"].square().mean()).backward()
print(*[name for name, each in auxiliary.named_parameters() if each.grad is not None])

# %% [markdown]
# ## Where next
#
# - [The graph tree](10_graph_tree.py): graphs in graphs, frozen and loaded by path.
# - [Values from loop iterations](../explanation/flows.md#values-from-loop-iterations) and
#   [state](../explanation/flows.md#state-from-call-to-call) in the explanation.
# - [Pictures and profiles](07_pictures_and_profiles.py), to see which branch takes the time.
