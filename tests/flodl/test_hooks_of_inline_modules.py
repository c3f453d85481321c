"""Hooks of modules that a flow calls in place: parametrizations, and modules without traced arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from flodl import FlowModule

pytestmark = pytest.mark.torch


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


class Prompt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))

    def forward(self) -> torch.Tensor:
        return self.weight * 2


class Net(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.square = nn.Linear(3, 3)
        parametrize.register_parametrization(self.square, "weight", Symmetric())
        self.prompt = Prompt()

    def flow(self, x: Any) -> Any:
        return x @ self.square.weight + self.prompt()


def expected(net: Net, x: torch.Tensor) -> torch.Tensor:
    return x @ net.square.weight + net.prompt()


@pytest.mark.parametrize(
    "path", ["square.parametrizations.weight", "square.parametrizations.weight.0", "prompt"]
)
def test_hook_on_a_module_called_in_place_is_heard_after_tracing(path: str) -> None:
    net, x = Net(), torch.randn(2, 3)
    before = net(x)
    module = net.get_submodule(path)
    for register in (
        lambda: module.register_forward_hook(lambda _module, _inputs, output: output * 3),
        lambda: module.register_forward_hook(lambda _module, _inputs, output: output * 5),
    ):
        handle = register()
        assert torch.equal(net(x), expected(net, x))
        assert not torch.equal(net(x), before)
        handle.remove()
        assert torch.equal(net(x), before)


def test_module_called_in_place_with_unchanged_hooks_keeps_its_plan() -> None:
    net, x = Net(), torch.randn(2, 3)
    net.prompt.register_forward_hook(lambda _module, _inputs, output: output + 1)
    counts = []
    for _ in range(3):
        assert torch.equal(net(x), expected(net, x))
        counts.append(sum(len(plans.programs) for plans in net._flodl_plans.values()))
    assert len(set(counts)) == 1
