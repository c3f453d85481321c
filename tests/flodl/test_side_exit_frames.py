"""The variables that a pass brings along when it leaves its plan by a side exit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flodl import FlowModule
from flodl.graph.codegen import Frames

pytestmark = pytest.mark.torch


def test_frame_of_a_side_exit_has_what_was_held_there() -> None:
    frames = Frames()
    frames.bind("x", 0)
    frames.bind("y", 1)
    frames.leave(1, 1)
    frames.bind("x", None)
    frames.bind("y", 2)
    frames.leave(2, 2)
    assert frames[1] == {0: "x", 1: "y"}
    assert frames[2] == {2: "y"}


def test_frame_leaves_out_nodes_behind_the_side_exit() -> None:
    frames = Frames()
    frames.bind("a", 3)
    frames.bind("b", 4)
    frames.leave(3, 3)
    assert frames[3] == {3: "a"}


def test_flow_with_many_side_exits_follows_the_values_of_each_call() -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            total = x.sum() * 0
            for each in x:
                total = total + each * 2 if (each > 0).through(bool) else total - each
            return total

    net = Net()
    for seed in range(4):
        x = torch.randn(60, generator=torch.Generator().manual_seed(seed))
        expected = x.sum() * 0
        for each in x:
            expected = expected + each * 2 if each > 0 else expected - each
        assert torch.equal(net(x), expected)
    for plans in net._flodl_plans.values():
        for program in plans.programs:
            frames = program.code.frames
            # A frame at each of 60 side exits would hold 60 times as much.
            assert len(frames._bindings) < 3 * len(program.spec.nodes)
