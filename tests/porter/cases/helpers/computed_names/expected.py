import torch
import torch.nn as nn
import torch.nn.functional as F
from flodl import FlowModule, call


class Scaled(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))

    def flow(self, x):
        return F.linear(x, self.weight)


class Spectral(FlowModule):
    def __init__(self, module, name="weight"):
        super().__init__()
        self.module = module
        self.name = name
        weight = getattr(module, name)
        del module._parameters[name]
        module.register_parameter(name + "_bar", nn.Parameter(weight.data))
        module.register_parameter(name + "_u", nn.Parameter(torch.ones(4), requires_grad=False))

    def update(self):
        w = getattr(self.module, self.name + "_bar")
        u = getattr(self.module, self.name + "_u")
        v = F.normalize(torch.mv(w.t().data, u.data), dim=0)
        u.data = F.normalize(torch.mv(w.data, v), dim=0)
        setattr(self.module, self.name, w / u.dot(w.mv(v)).expand_as(w))

    def flow(self, *args):
        call(self.update)
        return call(self.module.forward, *args)


class LooksInto(Spectral):
    def flow(self, x):
        call(self.update)
        return x.through(self.module) + call(getattr, self.module, "weight").sum()


class OnItself(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def make(self, x):
        for i in range(self.count):
            setattr(self, f"layer{i}", nn.Linear(x.size(1), x.size(1)))

    def forward(self, x):
        if not hasattr(self, "layer0"):
            self.make(x)
        return getattr(self, "layer0")(x)


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.a = Spectral(nn.Linear(4, 4))
        self.b = Spectral(Scaled(4))

    def flow(self, x):
        return x.through(self.a).through(F.relu).through(self.b)


def check():
    torch.manual_seed(1)
    net = Net()
    x = torch.randn(2, 4)
    outs = []
    for _ in range(3):
        out = net(x)
        out.sum().backward()
        outs.append(out)
    gradients = [parameter.grad for parameter in net.parameters()]
    deeper = LooksInto(nn.Linear(4, 4))
    outs += [deeper(x) for _ in range(3)]
    return outs, gradients, OnItself(2)(x)
