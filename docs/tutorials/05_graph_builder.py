# %% [markdown]
# # Build graphs with FlowBuilder
#
# `FlowBuilder` describes a model as one chain of calls, without a class. The result is a `Graph`, which is an
# ordinary `torch.nn.Module`. In this tutorial you use its words one at a time: chains, residuals, branches, tags,
# loops, experts and slices. It takes about ten minutes.
#
# ## A chain
#
# `from_` takes the first stage and `through` appends one. A stage is a module, a function, or a tuple of both.
# `build` checks the chain and returns the graph.

# %%
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Add, BuildError, Cat, FlowBuilder, SoftmaxRouter

torch.manual_seed(0)

mlp = (
    FlowBuilder.from_(nn.Linear(4, 16))
    .through(nn.GELU())
    .through((nn.Linear(16, 16), torch.tanh))
    .through(nn.Linear(16, 2))
    .build()
)
print(mlp)
print(mlp(torch.ones(3, 4)).shape)

# %% [markdown]
# Each step is named by its kind and a number. These names are the keys of the `state_dict`:

# %%
print(*mlp.state_dict(), sep="\n")

# %% [markdown]
# A builder never changes. Every call returns a new builder, so you can continue one beginning in two ways. Both graphs
# below share the first layer:

# %%
start = FlowBuilder.from_(nn.Linear(4, 8)).through(nn.ReLU())
classifier = start.through(nn.Linear(8, 3)).build()
regressor = start.through(nn.Linear(8, 1)).build()
print(classifier(torch.ones(1, 4)).shape, regressor(torch.ones(1, 4)).shape)
assert classifier.get_submodule("linear_1") is regressor.get_submodule("linear_1")

# %% [markdown]
# ## Residual connections
#
# `also(stage)` computes `x + stage(x)`. The picture shows the connection that the addition reads:

# %%
residual = (
    FlowBuilder.from_(nn.Linear(4, 16))
    .also((nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()))
    .through(nn.Linear(16, 2))
    .label("residual")
    .build()
)
residual

# %% [markdown]
# ## Branches
#
# `split` sends the value through several stages, and `merge` combines their results. `Add`, `Mean`, `Mul`, `Max`,
# `Cat` and `Stack` are ready; any function of a list works as well.

# %%
branches = (
    FlowBuilder.from_(nn.Linear(4, 8))
    .split(nn.Linear(8, 3), (nn.Linear(8, 5), nn.ReLU()))
    .merge(Cat(dim=1))
    .build()
)
print(branches)
print(branches(torch.ones(1, 4)).shape)

# %% [markdown]
# ## Tags
#
# `tag` names a value. `using` passes a tagged value to a later stage as its next argument. Together they replace the
# variables of a hand-written `forward`:

# %%
skip = (
    FlowBuilder.from_(nn.Linear(4, 8))
    .tag("early")
    .through((nn.ReLU(), nn.Linear(8, 8), nn.ReLU()))
    .through(nn.Bilinear(8, 8, 2))
    .using("early")
    .build()
)
print(skip)

# %% [markdown]
# After a call you can read the value of each tag. It is detached, so it keeps no autograd graph alive:

# %%
skip(torch.ones(3, 4))
early = skip.tagged("early")
print(early.shape, early.requires_grad)

# %% [markdown]
# ## Mistakes
#
# `build` reports all mistakes at once. Each problem also has the file and the line of your call.

# %%
wrong = FlowBuilder.from_(nn.Linear(4, 4)).merge(Add()).split(nn.ReLU(), nn.Tanh())
try:
    wrong.build()
except BuildError as error:
    for problem in error.problems:
        print("-", problem.message)

# %% [markdown]
# With an example input, `build` also checks the shapes, on PyTorch's meta device and without computing anything. The
# notes of the error name the step, your line, and the shapes that met:

# %%
try:
    FlowBuilder.from_(nn.Linear(4, 8)).through(nn.Linear(9, 2)).build(torch.ones(1, 4))
except RuntimeError as error:
    print(error)
    print("\n".join(error.__notes__))

# %% [markdown]
# ## Loops
#
# `loop_body(stage).for_n(n)` applies one stage several times, with the same weights each time:

# %%
step = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
loop = FlowBuilder.from_(nn.Linear(4, 8)).loop_body(step).for_n(3).build()
print(loop)

x = torch.ones(1, 4)
by_hand = loop.get_submodule("linear_1")(x)
for _ in range(3):
    by_hand = step(by_hand)
assert torch.equal(loop(x), by_hand)

# %% [markdown]
# ## Experts
#
# `gate(router, *experts)` runs all experts and adds their results, weighted by the router. `SoftmaxRouter` learns
# the weights from the value:

# %%
experts = [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)]
mixture = (
    FlowBuilder.from_(nn.Linear(4, 8))
    .gate(SoftmaxRouter(8, 3), *experts)
    .through(nn.Linear(8, 2))
    .label("mixture")
    .build()
)
mixture

# %% [markdown]
# ## Slices
#
# `map(stage).along(1)` applies a stage to every slice `x[:, i]` and stacks the results. The length may differ in
# every call:

# %%
per_step = FlowBuilder.from_(nn.Linear(4, 8)).map((nn.Linear(8, 2), nn.ReLU())).along(1).build()
print(per_step(torch.ones(2, 5, 4)).shape, per_step(torch.ones(2, 9, 4)).shape)

# %% [markdown]
# ## Graphs in graphs
#
# A graph is a module, so it can be a stage of another graph. Its label becomes its name in the outer graph:

# %%
encoder = (
    FlowBuilder.from_(nn.Linear(4, 8)).also((nn.Linear(8, 8), nn.GELU())).label("encoder").build()
)
whole = (
    FlowBuilder.from_(encoder).through(F.normalize).through(nn.Linear(8, 2)).label("whole").build()
)
print(whole)
print(*whole.state_dict(), sep="\n")

# %% [markdown]
# ## Train it
#
# For an optimizer, a graph is a module like any other. A few steps of a plain loop are enough for this task: which of
# two rings is a point on?

# %%
angle = torch.rand(400) * 6.28
ring = torch.arange(400) % 2
radius = 1.0 + ring + 0.1 * torch.randn(400)
points = torch.stack((radius * angle.cos(), radius * angle.sin()), dim=1)

model = (
    FlowBuilder.from_(nn.Linear(2, 32))
    .also((nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()))
    .through(nn.Linear(32, 2))
    .build()
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(100):
    loss = F.cross_entropy(model(points), ring)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

right = (model(points).argmax(dim=1) == ring).float().mean().item()
assert right > 0.95
print("more than 95 % of the points are right")

# %% [markdown]
# ## Where next
#
# - [Pictures and profiles](07_pictures_and_profiles.py) of graphs like these.
# - [The graph tree](10_graph_tree.py): parts of a model by path, frozen and loaded by themselves.
# - [All flow words](../explanation/flows.md#as-a-class), and the [reference](../reference/api-ref.md) of
#   `FlowBuilder`.
