# %% [markdown]
# # Modules
#
# A flow module is a `torch.nn.Module`. In this tutorial you use parameters, buffers, lists of layers, options, hooks
# and copies as in PyTorch, and see what the graph adds. It takes about ten minutes.
#
# ## Parameters and buffers
#
# `__init__` is that of any module. Parameters and buffers are read from the module in every call, so a
# changed weight is used at once:

# %%
import copy
import io

import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import Flow, FlowModule

torch.manual_seed(0)


class Center(FlowModule):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("mean", torch.zeros(width))

    def flow(self, x: Flow) -> Flow:
        return (x - self.mean) * self.weight


center = Center(3)
before = center(torch.ones(3))
center.mean.fill_(1.0)
print(before, center(torch.ones(3)))
print(list(center.state_dict()))

# %% [markdown]
# ## Lists of layers
#
# A loop over an `nn.ModuleList` is unrolled while the flow is traced. Each layer keeps its place in the `state_dict`:


# %%
class Tower(FlowModule):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def flow(self, x: Flow) -> Flow:
        for layer in self.layers:
            x = x.also((layer, F.gelu))
        return x


tower = Tower(4, 2)
print(flodl.view(tower).flow_text())

# %% [markdown]
# ## Change a module between calls
#
# A flow reads its module while it is traced: the length of the list, the value of a flag. What it read becomes a
# guard, so a change is noticed in the next call, and the flow is traced again:

# %%
x = torch.randn(2, 4)
tower.layers.append(nn.Linear(4, 4))
longer = tower(x)
by_hand = x
for layer in tower.layers:
    by_hand = by_hand + F.gelu(layer(by_hand))
print(torch.equal(longer, by_hand))

# %% [markdown]
# Options are plain attributes. There is one plan for each value that was used, and all of them stay:


# %%
class Option(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.residual = True

    def flow(self, x: Flow) -> Flow:
        y = x.through(self.fc)
        return x + y if self.residual else y


option = Option()
with_residual = option(x)
option.residual = False
torch.testing.assert_close(with_residual - x, option(x))
print(*[line for line in option.code.splitlines() if line.startswith("#")], sep="\n")

# %% [markdown]
# ## Train and eval
#
# `train()` and `eval()` work as usual. A test of `self.training` in a flow is a guard like any other:


# %%
class Noisy(FlowModule):
    def flow(self, x: Flow) -> Flow:
        if self.training:
            x = x + 0.1 * torch.randn_like(x)
        return x


noisy = Noisy()
print(torch.equal(noisy.train()(x), x), torch.equal(noisy.eval()(x), x))

# %% [markdown]
# ## Modules in modules
#
# A flow module can be a part of a plain module, and a plain module a part of a flow. A layer of torch, a flow and
# your own `nn.Module` are all stages:


# %%
class Swish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class Mixed(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.tower = Tower(4, 1)
        self.swish = Swish()
        self.out = nn.Linear(4, 2)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.tower).through(self.swish).through(self.out)


wrapped = nn.Sequential(nn.LayerNorm(4), Mixed(), nn.Softmax(dim=-1))
print(wrapped(x).sum(dim=-1))

# %% [markdown]
# Paths reach through all of them. `view.names` lists every value that has a name, with its shape for an input:

# %%
for each in flodl.view(wrapped).names("1.*", x):
    print(each.name, each.shape)

# %% [markdown]
# ## Shared weights
#
# Assign one layer twice, or use it twice; it is one set of weights. Here the input embedding is the output layer:


# %%
class Tied(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.out = nn.Linear(4, 10, bias=False)
        self.out.weight = self.embed.weight

    def flow(self, tokens: Flow) -> Flow:
        return tokens.through(self.embed).through(self.out)


tied = Tied()
print(tied(torch.tensor([1, 2])).shape, len(list(tied.parameters())), "parameter tensor")

# %% [markdown]
# ## Hooks
#
# Forward and backward hooks run where PyTorch runs them. A hook on a part is called when the flow calls that part:

# %%
mixed = wrapped[1]
seen = []
handle = mixed.swish.register_forward_hook(lambda part, args, out: seen.append(tuple(out.shape)))
wrapped(x)
handle.remove()
wrapped(x)
print(seen)

# %% [markdown]
# ## Copies, files, and functional calls
#
# `copy.deepcopy`, pickle, `torch.save` and `torch.func.functional_call` work. The weights are the state; plans are
# made again when a copy is called:

# %%
twin = copy.deepcopy(wrapped)
file = io.BytesIO()
torch.save(wrapped.state_dict(), file)
file.seek(0)
twin.load_state_dict(torch.load(file))
assert torch.equal(twin(x), wrapped(x))

zeros = {name: torch.zeros_like(each) for name, each in wrapped.named_parameters()}
print(torch.func.functional_call(wrapped, zeros, (x,)))

# %% [markdown]
# ## A class below a layer of torch
#
# To extend a container or layer, name it first. If the class has no `flow`, it describes the forward of the layer, so
# the container becomes a graph of its children:


# %%
class Block(nn.Sequential, FlowModule):
    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, width), nn.ReLU())


print(flodl.view(Block(4)).flow_text())

# %% [markdown]
# ## Where next
#
# - [Training](04_training.py): what to do with these modules.
# - [Build graphs with FlowBuilder](05_graph_builder.py), without a class.
# - [Parts of a model by path](../how-to/tree.md): freeze, replace and summarise.
