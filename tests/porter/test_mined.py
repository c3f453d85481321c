"""Failures mined from ParityBench, each as a minimal script of our own, in all seven checks."""

import textwrap
import types

import pytest

from benchmarks.parity import case as protocol
from fdl_cli.porter.port_file import port_file

pytestmark = pytest.mark.torch

PRELUDE = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
MODULES = {
    "abstract methods without ABC bind nobody": """
        from abc import abstractmethod
        class Net(nn.Module):
            @abstractmethod
            def setup(self):
                pass
            def forward(self, x):
                return x + 1
        CASES = [(Net, (), lambda: (torch.ones(2),))]
    """,
    "checks that torch makes of numbers, of tensors, and of none": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                torch._check(x.shape[0] < 100)
                torch._check(x.dim() == 2, lambda: "two dimensions")
                torch._assert(True, "never")
                y = self.fc(x)
                torch._assert(y.sum() < 1e6, "a number")
                torch._assert(y.size(1) == x.size(1), "alike")
                return y + x
        CASES = [(Net, (), lambda: (torch.randn(2, 4),))]
    """,
    "a static forward": """
        class Net(nn.Module):
            @staticmethod
            def forward(x, scale=2.0):
                return x * F.softplus(x).tanh() / scale
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.act, self.a = Net(), nn.Linear(2, 2)
            def forward(self, x):
                return self.act(self.a(x))
        CASES = [(Net, (), lambda: (torch.randn(2),)), (Outer, (), lambda: (torch.randn(2, 2),))]
    """,
    "a distribution checks its parameters": """
        from torch.distributions import Categorical, Normal, kl_divergence
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(3, 3)
                self.scale = nn.Parameter(torch.zeros(3))
            def forward(self, x):
                mean = self.a(x)
                dist = Normal(mean, self.scale.exp().expand_as(mean))
                prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
                which = Categorical(logits=mean)
                drawn = dist.rsample()
                return drawn, dist.log_prob(drawn), kl_divergence(dist, prior), which.probs, dist
        CASES = [(Net, (), lambda: (torch.randn(2, 3),))]
    """,
    "a container holds raw parameters": """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.one, self.two = nn.Linear(4, 4), *map(nn.Parameter, torch.rand(2, 4))
        class InATuple(Base):
            def forward(self, x):
                for part in (self.one, x, self.two):
                    x = x + self.a(part)
                return x
        class ByPlace(Base):
            def forward(self, x):
                parts, named = [self.one, self.two], {"x": x, "one": self.one}
                return x + self.a(parts[0]) + self.a(parts[1:][0]) + self.a(named["one"])
        class Numbered(Base):
            def forward(self, x):
                one, two = tuple(self.a(part) for part in (self.one, self.two))
                for number, (part, other) in enumerate(zip([self.one], (self.two,))):
                    x = x * number + self.a(part) + self.a(other)
                return x + one + two
        class Collected(Base):
            def forward(self, x):
                parts = []
                for part in (self.one, self.two):
                    parts.append(part)
                return self.a(parts[0]) + self.a(parts.pop()) + x
        CASES = [(made, (), lambda: (torch.randn(2, 4),))
                 for made in (InATuple, ByPlace, Numbered, Collected)]
    """,
    "a buffer is registered again": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(3, 3)
                self.register_buffer("known", torch.ones(1), False)
                self.register_buffer("mean", None, persistent=True)
            def forward(self, x):
                if len(x) > len(self.known):
                    self.register_buffer("known",
                                         torch.linspace(0, 1, len(x)), persistent=False)
                if self.mean is None:
                    self.register_buffer("mean", self.a(x).mean(0).detach())
                return self.a(x) * self.known[:len(x), None] + self.mean
        CASES = [(Net, (), lambda: (torch.randn(2, 3),))]
    """,
    "several attributes are set at once": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.scale = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
            def forward(self, x):
                x = self.a(x)
                return x + self.scale.exp().expand_as(x)
        CASES = [(Net, (), lambda: (torch.randn(2, 3),))]
    """,
    "a number of numpy times a tensor": """
        import numpy as np
        class Net(nn.Module):
            def forward(self, x):
                return 0.5 * x * (1 + torch.tanh(np.sqrt(2 / np.pi) * (x + 0.04 * torch.pow(x, 3))))
        CASES = [(Net, (), lambda: (torch.randn(2, 3),))]
    """,
    "a mask is a value, and its sum may be asked": """
        class Net(nn.Module):
            def forward(self, x, target):
                count = (target > 0).type(torch.FloatTensor).sum()
                x = x.masked_fill(target == 0, 2.0)
                if count == 0:
                    return x.mean()
                return x.sum() / count
        CASES = [(Net, (), lambda: (torch.randn(2, 3), torch.tensor([[0, 1, 1], [1, 0, 0]]))),
                 (Net, (), lambda: (torch.randn(2, 3), torch.zeros(2, 3)))]
    """,
}


def executed(text, name):
    module = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    module.TESTCASES = [
        (cls, lambda args=args: (args, {}), lambda make=make: (make(), {}))
        for cls, args, make in module.CASES
    ]
    return module


@pytest.mark.parametrize("name", MODULES)
def test_a_mined_failure_is_a_flow_and_equal(name, tmp_path, monkeypatch):
    text = PRELUDE + textwrap.dedent(MODULES[name]).strip("\n") + "\n"
    outcome, made = port_file(text.encode(), tmp_path / "net.py", None)
    assert [(i.name, i.reasons) for i in outcome.classes if i.status != "graph"] == []
    original, ported = executed(text, "original"), executed(made.decode(), "ported")
    for index in range(len(original.TESTCASES)):
        checks, kinds = protocol.judge_ours(protocol.Case(original, index), ported)
        assert {k: v for k, v in checks.items() if v not in {"ok", "na"}} == {}, made.decode()
        assert kinds == {"flow": True, "kept_inside": []}


def test_a_static_forward_that_is_called_without_an_object_is_kept(tmp_path):
    text = PRELUDE + textwrap.dedent("""
        class Act(nn.Module):
            @staticmethod
            def forward(x):
                return x * 2
        def twice(x):
            return Act.forward(Act.forward(x))
    """)
    outcome, _ = port_file(text.encode(), tmp_path / "net.py", None)
    assert [reason.code for reason in outcome.classes[0].reasons] == ["FDL207"]
