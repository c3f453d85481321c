# %% [markdown]
# # Pictures and profiles
#
# You draw a model, open its parts, find its slow steps, and compare two versions of it. Everything works on graphs,
# on flow modules and, through `flodl.view`, on plain PyTorch modules. It takes about ten minutes.
#
# ## A model to look at
#
# A small transformer for character sequences: three equal blocks, each with attention and a residual MLP.

# %%
import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import Flow, FlowModule

torch.manual_seed(0)


class Block(FlowModule):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def flow(self, x: Flow) -> Flow:
        q, k, v = x.through(self.norm).through(self.qkv).chunk(3, dim=-1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + attended.through(self.out)
        return x.also(self.mlp)


class Model(FlowModule):
    def __init__(self, width: int = 32, blocks: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 50)

    def flow(self, tokens: Flow) -> Flow:
        return tokens.through(self.embed).through(self.blocks).tag("features").through(self.head)


model = Model()
view = flodl.view(model)
tokens = torch.randint(0, 50, (8, 64))
print(model(tokens).shape)

# %% [markdown]
# ## A picture
#
# In a notebook, a flow module or a view draws itself. A box with a shadow has a graph inside. Tags are violet.

# %%
model

# %% [markdown]
# Methods that draw return the SVG as text and write it to a file if you name one. This small class shows such a text
# in a notebook. `depth=1` opens the first level of parts:


# %%
class Picture:
    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


Picture(flodl.view(model.blocks[0]).svg("block.svg", depth=1))

# %% [markdown]
# `view.html("model.html")` writes the same graph as one page that needs only a browser. There, parts open with a click,
# and each step shows its settings, its shape and its line in your code.

# %%
page = view.html("model.html")
print("external scripts:", page.count("<script src="))

# %% [markdown]
# ## Sizes
#
# `summary` lists the parts with their outputs, parameters and multiply-accumulates. It runs a copy, so the model stays
# as it is.

# %%
print(view.summary(tokens, depth=1))

# %% [markdown]
# ## Times
#
# While profiling is on, each step of a flow is timed. `profile_stats` has minimum and mean of every step over all
# calls but the first three, which warm up.

# %%
block = flodl.view(model.blocks[0])
x = model.embed(tokens)
block.enable_profiling()
for _ in range(20):
    model.blocks[0](x)
stats = block.profile_stats()
block.disable_profiling()
print(stats.passes, "calls")

# %% [markdown]
# Every step has a number, not only the calls of modules. The numbers depend on the machine, so this page prints the
# names alone. To see the slow steps first, sort by `node.mean`:

# %%
slow_first = sorted(stats.nodes, key=lambda node: node.mean, reverse=True)
print(*sorted(node.id for node in slow_first), sep="\n")
assert all(0 < node.min <= node.mean for node in slow_first)

# %% [markdown]
# ## Heat maps
#
# A heat map colours each step by its cost: the darker, the more. `svg_with_profile` shows the times of the last
# profiled call:

# %%
block.enable_profiling()
model.blocks[0](x)
heat = block.svg_with_profile()
block.disable_profiling()
Picture(heat)

# %% [markdown]
# `heat_map` measures a copy by itself: `"memory"` shows the bytes that each step allocates, `"backward"` the time of
# its gradient.

# %%
Picture(block.heat_map("memory", x))

# %% [markdown]
# ## What changed?
#
# `diff` compares two versions of a model: parts, settings, tensors, and the steps of each forward. Here one layer
# became wider, and a dropout was added:

# %%
old = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
new = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Dropout(0.5))
changes = flodl.view(old).diff(new)
print(changes)

# %% [markdown]
# Both models are plain PyTorch: views need no port. The picture is that of the new version, with changed and added
# steps in colour:

# %%
Picture(changes.svg())

# %% [markdown]
# ## Text forms
#
# `mermaid` gives a flowchart for Markdown files and `dot` the source for Graphviz:

# %%
print(flodl.view(old).mermaid())

# %% [markdown]
# ## Where next
#
# - On the command line, `fdl graph model.py:Net --svg net.svg` draws a class of a file, and
#   `fdl graph --diff old.py new.py:Net` compares two files: [pictures](../how-to/pictures.md).
# - [Observe values](../how-to/observation.md) by name while a model runs.
# - [The graph tree](10_graph_tree.py): work on the parts that you see here.
