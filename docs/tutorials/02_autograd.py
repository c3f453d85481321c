# %% [markdown]
# # Autograd
#
# PyTorch computes the gradients of a flow, as of any module. In this tutorial you check that they are the same bits,
# take gradients of values inside a model, stop them there, and use your own backward. It takes about ten minutes.
#
# ## The same gradients
#
# The generated code calls the operations of PyTorch in the order of your flow, so autograd records the same graph:

# %%
import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import Flow, FlowModule, call

torch.manual_seed(0)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        return self.head(hidden)


class Net(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def flow(self, x: Flow) -> Flow:
        hidden = x.through(self.body).tanh()
        return hidden.through(self.head)


plain, net = Plain(), Net()
net.load_state_dict(plain.state_dict())
x, target = torch.randn(16, 4), torch.randn(16, 1)
F.mse_loss(plain(x), target).backward()
F.mse_loss(net(x), target).backward()
for (name, one), two in zip(plain.named_parameters(), net.parameters()):
    print(name, torch.equal(one.grad, two.grad))

# %% [markdown]
# ## Gradients of a value inside
#
# `capture` keeps values of a call by name, with their history. `torch.autograd.grad` then gives the gradient of the
# output with respect to `hidden`, and no hook is needed:

# %%
view = flodl.view(net)
with view.capture("hidden") as cache:
    output = net(x)
(gradient,) = torch.autograd.grad(output.sum(), cache["hidden"])
print(tuple(gradient.shape), torch.equal(gradient[0], net.head.weight[0]))

# %% [markdown]
# Each row is the weight of the last layer, as calculus says: the output is linear in `hidden`.
#
# ## Where gradients end
#
# `detach` and `with torch.no_grad():` mean in a flow what they mean in a `forward`. The block below normalises by a
# number that gets no gradient:


# %%
class Normalized(Net):
    def flow(self, x: Flow) -> Flow:
        hidden = x.through(self.body).tanh()
        with torch.no_grad():
            largest = hidden.abs().amax()
        return (hidden / largest).through(self.head)


normalized = Normalized()
normalized(x).sum().backward()
print(normalized.code)

# %% [markdown]
# `intervene` ends a gradient from outside, for one call, without a change of the model. With `hidden` detached, the
# body gets no gradient:

# %%
net.zero_grad()
with view.intervene({"hidden": torch.Tensor.detach}):
    net(x).sum().backward()
print(net.body.weight.grad, tuple(net.head.weight.grad.shape))

# %% [markdown]
# ## Your own backward
#
# A `torch.autograd.Function` is a step, with `through`. This one reverses the gradient, as adversarial training does:


# %%
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Adversary(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.judge = nn.Linear(4, 1)

    def flow(self, x: Flow) -> Flow:
        return x.through(Reverse.apply).through(self.judge)


adversary = Adversary()
features = torch.ones(1, 4, requires_grad=True)
adversary(features).sum().backward()
print(torch.equal(features.grad, -adversary.judge.weight))

# %% [markdown]
# ## Gradients of gradients
#
# `create_graph=True` keeps the history of a gradient. A gradient penalty is three lines, as in plain PyTorch:

# %%
net.zero_grad()
inputs = x.clone().requires_grad_()
(slope,) = torch.autograd.grad(net(inputs).sum(), inputs, create_graph=True)
penalty = (slope.norm(dim=1) - 1).square().mean()
penalty.backward()
print(tuple(slope.shape), net.body.weight.grad.abs().sum() > 0)

# %% [markdown]
# ## One gradient per sample
#
# `torch.func` takes flows too. `vmap` over `grad` gives the gradient of each sample, which per-sample clipping and
# influence functions need:

# %%
from torch.func import functional_call, grad, vmap

weights = {name: each.detach() for name, each in net.named_parameters()}


def loss_of(weights, sample, wanted):
    return F.mse_loss(functional_call(net, weights, (sample[None],))[0], wanted)


per_sample = vmap(grad(loss_of), in_dims=(None, 0, 0))(weights, x, target)
print({name: tuple(each.shape) for name, each in per_sample.items()})

net.zero_grad()
F.mse_loss(net(x), target).backward()
torch.testing.assert_close(per_sample["body.weight"].mean(0), net.body.weight.grad)
print("their mean is the gradient of the batch")

# %% [markdown]
# ## Compute again instead of keeping
#
# Activation checkpointing saves memory: the values of a part are computed again in the backward pass. torch's
# `checkpoint` needs tensors, so it is one step, with `call`:

# %%
from torch.utils.checkpoint import checkpoint


class Deep(FlowModule):
    def __init__(self, saving: bool) -> None:
        super().__init__()
        self.saving = saving
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 32), nn.GELU(), nn.Linear(32, 4)) for _ in range(3)
        )
        self.head = nn.Linear(4, 1)

    def flow(self, x: Flow) -> Flow:
        for part in self.parts:
            if self.saving:
                x = call(checkpoint, part, x, use_reentrant=False)
            else:
                x = x.through(part)
        return x.through(self.head)


keeping, saving = Deep(saving=False), Deep(saving=True)
saving.load_state_dict(keeping.state_dict())
keeping(x).sum().backward()
saving(x).sum().backward()
for one, two in zip(keeping.parameters(), saving.parameters()):
    assert torch.equal(one.grad, two.grad)
print("the gradients are equal")

# %% [markdown]
# ## Where next
#
# - [Modules](03_modules.py): parameters, buffers, hooks and containers of flows.
# - [Training](04_training.py), where `Trainer` calls `backward` for you.
# - [Values by name](../how-to/observation.md): patterns, callbacks and patches.
