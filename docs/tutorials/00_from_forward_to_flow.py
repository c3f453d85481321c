# %% [markdown]
# # From forward to flow
#
# You have a PyTorch module. In this tutorial you write it as a flow, check that both compute the same bits, and
# look at what the flow gives you: names, pictures and generated code. It takes about ten minutes.
#
# ## A module in plain PyTorch
#
# The block below normalises its input, widens it, applies GELU, and adds the result to the input.

# %%
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        hidden = F.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)


block = Block(8)
x = torch.randn(2, 8)
print(block(x).shape)

# %% [markdown]
# `forward` is a black box: PyTorch calls it and gets a tensor. No tool can see that there is a residual connection,
# or that the value in the middle is called `hidden`.
#
# ## The same module as a flow
#
# Change the base class to `FlowModule` and rename `forward` to `flow`. That is all this class needs: `__init__`
# stays, and the body of `flow` is ordinary Python.

# %%
import flodl
from flodl import Flow, FlowModule


class FlowBlock(FlowModule):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def flow(self, x: Flow) -> Flow:
        hidden = F.gelu(x.through(self.norm).through(self.up))
        return x + hidden.through(self.down)


flow_block = FlowBlock(8)
print(isinstance(flow_block, nn.Module))

# %% [markdown]
# `x` is a `Flow`: a proxy for a tensor. Operators, tensor methods and functions of `torch` and `F` work on it and
# record one step each. `x.through(stage)` records the call of a module or of any callable.
#
# ## Both compute the same
#
# Parameters keep their names, so the weights move over with `load_state_dict`. The comparison is exact: equal bits,
# in the output and in the gradients.

# %%
print(flow_block.load_state_dict(block.state_dict()))

block(x).sum().backward()
flow_block(x).sum().backward()

assert torch.equal(block(x), flow_block(x))
for before, after in zip(block.parameters(), flow_block.parameters()):
    assert torch.equal(before.grad, after.grad)
print("outputs and gradients are equal")

# %% [markdown]
# ## Read the graph
#
# `flodl.view(module)` looks into a module without adding methods to its class. The flow as text has one line per
# step. A step that calls a part of the module has the name of that part; the others are numbered.

# %%
view = flodl.view(flow_block)
print(view.flow_text())

# %% [markdown]
# The picture shows the residual connection. In a notebook, a flow as the last value of a cell draws itself.

# %%
flow_block

# %% [markdown]
# The runtime does not interpret this graph in each call. It generates straight-line Python once, and runs that. Your
# variable `hidden` is in it, and each value is freed as soon as no later step reads it:

# %%
print(flow_block.code)

# %% [markdown]
# ## Use the names
#
# Every value has a name, so you can keep it, or replace it, without changing the model. Here you keep `hidden` in one
# run, and set it to zero in the next. Without `hidden`, only the residual connection and a bias are left.

# %%
_, kept = view.run_with_cache(x, names="hidden")
print(kept["hidden"].shape)

with view.intervene({"hidden": torch.zeros_like}):
    without = flow_block(x)
assert torch.equal(without, x + flow_block.down.bias)

# %% [markdown]
# ## Words of flows
#
# `through` is one of some twenty words. `also` adds a result to its input, and a tuple is a chain of stages. With both,
# the block is one line:


# %%
class ShortBlock(FlowBlock):
    def flow(self, x: Flow) -> Flow:
        return x.also((self.norm, self.up, F.gelu, self.down))


short = ShortBlock(8)
short.load_state_dict(block.state_dict())
assert torch.equal(short(x), block(x))
print(flodl.view(short).flow_text())

# %% [markdown]
# ## Decisions on values
#
# While `flow` is traced, a proxy has no number in it. A Python `if` on the value of a tensor is therefore an error,
# and the message names the line:


# %%
class Shrink(FlowModule):
    def flow(self, x: Flow) -> Flow:
        while x.abs().max() > 1:
            x = x / 2
        return x


try:
    Shrink()(torch.tensor([8.0]))
except flodl.FlowError as error:
    print(str(error).split(";")[0])

# %% [markdown]
# Make the decision a step, with `through(bool)`. The loop then runs as often as the values need:


# %%
class ShrinkFlow(FlowModule):
    def flow(self, x: Flow) -> Flow:
        while (x.abs().max() > 1).through(bool):
            x = x / 2
        return x


shrink = ShrinkFlow()
print([shrink(torch.tensor([value])).item() for value in (0.5, 3.0, 8.0)])

# %% [markdown]
# ## It is still a module
#
# Optimizers, hooks, `copy.deepcopy`, pickle, `torch.compile` and `torch.export` work as on any module. Here
# `torch.export` is the first tool that calls a new block, and its program gives the same output:

# %%
fresh = FlowBlock(8)
fresh.load_state_dict(block.state_dict())
program = torch.export.export(fresh, (x,))
torch.testing.assert_close(program.module()(x), block(x))
print(len(program.graph_signature.parameters), "parameter tensors")

# %% [markdown]
# ## Where next
#
# - `fdl port FILE` rewrites the classes of a file in this way, and proves each one equal:
#   [port your first file](../get-started/first-port.md).
# - [Build graphs as values](05_graph_builder.py), without a class.
# - [Flow graphs](../explanation/flows.md) explains all words, and when a flow is traced.
