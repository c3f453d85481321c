# %% [markdown]
# # Tensors
#
# flodl has no tensor type: its modules take and return tensors of PyTorch. In this tutorial you see how a flow handles
# shapes, numbers, in-place changes, random draws and dtypes, and how an error names the tensor that caused it. It
# takes about ten minutes.
#
# ## A proxy, not a tensor
#
# While `flow` is traced, `x` is a proxy. Operators, indexing, methods of tensors, and functions of `torch` and `F`
# work on it, and each records one step:

# %%
import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import Flow, FlowError, FlowModule, call

torch.manual_seed(0)


class Standardize(FlowModule):
    def flow(self, x: Flow) -> Flow:
        mean = x.mean(-1, keepdim=True)
        scale = x.std(-1, keepdim=True).clamp_min(1e-6)
        return (x - mean) / scale


standardize = Standardize()
x = torch.randn(2, 5)
assert standardize(x).mean(-1).abs().max() < 1e-6
print(flodl.view(standardize).flow_text())

# %% [markdown]
# Outside of tracing there is no proxy. A call runs generated code, and its values are plain tensors.
#
# ## Sizes
#
# `x.shape` gives symbolic sizes. You can compute with them, and one plan serves every size:


# %%
class Heads(FlowModule):
    def flow(self, x: Flow) -> Flow:
        batch, length, width = x.shape
        return x.view(batch, length, 2, width // 2).transpose(1, 2)


heads = Heads()
print(tuple(heads(torch.ones(2, 3, 8)).shape), tuple(heads(torch.ones(5, 7, 4)).shape))
print(heads.code)

# %% [markdown]
# A Python `if` on a size is a decision. flodl follows it for the tensor at hand, and notes the condition as a guard.
# The other side becomes a second plan when a tensor needs it:


# %%
class Pool(FlowModule):
    def flow(self, x: Flow) -> Flow:
        if x.size(1) > 4:
            return F.max_pool1d(x.unsqueeze(1), 2).squeeze(1)
        return x


pool = Pool()
print(tuple(pool(torch.ones(1, 3)).shape), tuple(pool(torch.ones(1, 8)).shape))
print(*[line for line in pool.code.splitlines() if line.startswith("#")], sep="\n")

# %% [markdown]
# ## Numbers out of tensors
#
# `.item()` reads a value, and a description has no values. The error says so, and how to write it instead:


# %%
class Scale(FlowModule):
    def flow(self, x: Flow) -> Flow:
        return x / x.abs().max().item()


try:
    Scale()(x)
except FlowError as error:
    print(str(error).partition(": ")[2])

# %% [markdown]
# `through(float)` makes the reading a step. Its result is a number of this call, and the next call reads again:


# %%
class ScaleStep(FlowModule):
    def flow(self, x: Flow) -> Flow:
        return x / x.abs().max().through(float)


scale = ScaleStep()
print(scale(torch.tensor([1.0, 2.0])), scale(torch.tensor([1.0, 4.0])))

# %% [markdown]
# ## Changes in place
#
# In-place operations and assignments to slices work as in PyTorch. They are steps too, and they stay in their order:


# %%
class Masked(FlowModule):
    def flow(self, x: Flow) -> Flow:
        y = x.clone()
        y[:, 0] = 0
        y += 1
        return y


masked = Masked()
print(masked(torch.full((2, 3), 4.0)))
print(masked.code)

# %% [markdown]
# ## New tensors and random numbers
#
# A function that takes no proxy would run once, while the flow is traced. flodl knows the functions of torch that draw
# or create, so these are steps as well. Every call draws again, with the generator of PyTorch:


# %%
class Noise(FlowModule):
    def flow(self, x: Flow) -> Flow:
        return x + torch.randn(x.shape)


noise = Noise()
torch.manual_seed(1)
drawn = noise(torch.zeros(3))
torch.manual_seed(1)
assert torch.equal(drawn, torch.randn(3))
print(torch.equal(noise(torch.zeros(3)), drawn))

# %% [markdown]
# For a function of your own, `call` makes the step. Here it reads a table in every call:

# %%
table = {"offset": 1.0}


class Shift(FlowModule):
    def flow(self, x: Flow) -> Flow:
        return x + call(table.get, "offset")


shift = Shift()
first = shift(torch.zeros(1)).item()
table["offset"] = 5.0
print(first, shift(torch.zeros(1)).item())

# %% [markdown]
# ## Dtypes and devices
#
# A flow runs in the dtype of its inputs, and `.to` moves it like any module. A test of a dtype is a guard:


# %%
class Precise(FlowModule):
    def flow(self, x: Flow) -> Flow:
        if x.dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        return x.logsumexp(-1)


precise = Precise()
for dtype in (torch.float16, torch.bfloat16, torch.float64):
    print(dtype, "->", precise(torch.ones(2, 3, dtype=dtype)).dtype)

# %% [markdown]
# ## Memory
#
# The generated code frees a tensor after the last step that reads it, as careful code would. Below, `wide` is gone
# before the second layer returns:


# %%
class Wide(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 1024)
        self.down = nn.Linear(1024, 4)

    def flow(self, x: Flow) -> Flow:
        wide = x.through(self.up)
        active = F.relu(wide)
        return active.through(self.down) + x


wide = Wide()
print(wide(torch.ones(1, 4)).shape)
print(wide.code)

# %% [markdown]
# ## When shapes do not fit
#
# The error is that of PyTorch, with its class and its text. A note adds the step, your line, and the tensors that met:

# %%
try:
    wide(torch.ones(1, 5))
except RuntimeError as error:
    print(error)
    print(error.__notes__[0].splitlines()[0])
    print(error.__notes__[0].splitlines()[-1].strip())

# %% [markdown]
# ## Where next
#
# - [Autograd](02_autograd.py): gradients of flows, and of the values inside them.
# - [When a flow is traced](../explanation/flows.md#when-flow-is-traced): every kind of read, and its guard.
# - [PyTorch and flodl side by side](../reference/pytorch-map.md).
