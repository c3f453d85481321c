"""Profiles and heat maps of flows whose calls take different branches."""

import pytest
import torch
from torch import nn

from flodl import FlowModule, view

pytestmark = pytest.mark.torch


class Branching(FlowModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.small = nn.Linear(4, 4)
        self.large = nn.Linear(4, 4)

    def flow(self, x):
        x = x.through(self.body)
        if (x.sum() > 0).through(bool):
            return x.through(self.large)
        return x.through(self.small)


def profiled(*signs):
    torch.manual_seed(0)
    net = Branching()
    with torch.no_grad():
        net.body.weight.copy_(torch.eye(4))
        net.body.bias.zero_()
    view(net).enable_profiling()
    for sign in signs:
        net(sign * torch.ones(2, 4))
    return net


@pytest.mark.parametrize("signs", [(1, -1, -1), (-1, 1, 1), (1, -1, 1, -1, 1)])
def test_profile_after_a_side_exit_has_the_nodes_before_it(signs):
    net = profiled(*signs)
    taken = "large" if signs[-1] > 0 else "small"
    names = [node.id for node in view(net).profile().nodes]
    assert names[:2] == ["body", "sum_1"]
    assert taken in names
    assert len(names) == len(set(names))


def test_profile_after_a_new_branch_was_traced_is_none():
    assert view(profiled(1, 1, -1)).profile() is None


def test_heat_map_after_a_side_exit_shows_the_nodes_before_it():
    text = view(profiled(1, -1, -1)).svg_with_profile()
    assert "body" in text
    assert "small" in text
