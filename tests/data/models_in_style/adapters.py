"""Layers wrapped and swapped by an adapter library: attributes through `__getattr__`, merged weights."""

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, r=2):
        super().__init__()
        self.base = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(4, r, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(r, 4, bias=False)})
        self.scaling = {"default": 2.0}
        self.active_adapters, self.merged, self.disable_adapters = ["default"], False, False

    @property
    def weight(self):
        return self.base.weight

    def forward(self, x, *args, **kwargs):
        if self.disable_adapters:
            return self.base(x, *args, **kwargs)
        result = self.base(x, *args, **kwargs)
        if self.merged:
            return result
        for active in self.active_adapters:
            if active not in self.lora_A.keys():
                continue
            lora_A, lora_B = self.lora_A[active], self.lora_B[active]
            result = result + lora_B(lora_A(x.to(lora_A.weight.dtype))) * self.scaling[active]
        return result


class Wrapper(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = LoRALinear(nn.Linear(4, 4))
        self.wrapped = Wrapper(nn.Linear(4, 4))

    def forward(self, x):
        y = self.wrapped(self.q(x))
        return y * self.q.weight.mean() + self.wrapped.weight.sum() + self.wrapped.in_features


def inputs(rows):
    return (torch.randn(rows, 4),), {}


def second(net):
    net.q.lora_A["other"], net.q.lora_B["other"] = nn.Linear(4, 3, bias=False), nn.Linear(3, 4, bias=False)
    net.q.scaling["other"] = 0.5
    net.q.active_adapters = ["default", "other", "none"]


def injected(net):
    net.wrapped.model = LoRALinear(net.wrapped.model)


def named(net):
    net.wrapped.model.in_features = 7


CHANGES = {
    "second": second, "injected": injected, "named": named,
    "disabled": lambda net: setattr(net.q, "disable_adapters", True),
    "merged": lambda net: setattr(net.q, "merged", True),
    "scaling": lambda net: net.q.scaling.update(default=0.5),
    "adapters": lambda net: net.q.active_adapters.clear(),
}
