"""Global and free variables with unseen state that a flow only passes on to steps."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

from flodl import FlowError, FlowModule, call

pytestmark = pytest.mark.torch

NUMBERS = iter(float(number) for number in range(100))
WRITTEN = io.StringIO()


def test_iterator_of_a_global_that_steps_get_moves_on_in_every_call() -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            call(print, "seen", file=WRITTEN)
            return x * call(next, NUMBERS)

    net, x = Net(), torch.ones(1)
    found = [net(x).item() for _ in range(3)]
    assert found == [found[0], found[0] + 1, found[0] + 2]
    assert WRITTEN.getvalue() == "seen\n" * 3


def test_iterator_of_a_free_variable_that_is_read_in_a_flow_is_an_error() -> None:
    numbers = iter([1.0, 2.0, 3.0])

    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            call(print, numbers, file=WRITTEN)
            return x * next(numbers)

    with pytest.raises(FlowError, match="`numbers`, a list_iterator"):
        Net()(torch.ones(1))


def test_iterator_that_another_variable_leads_to_is_an_error() -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            numbers = NUMBERS
            return x * next(numbers)

    with pytest.raises(FlowError, match="`NUMBERS`, a generator"):
        Net()(torch.ones(1))


def test_other_stream_for_a_step_is_written_to_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Net(FlowModule):
        def flow(self, x: Any) -> Any:
            call(print, "seen", file=WRITTEN)
            return x

    net, x = Net(), torch.ones(1)
    net(x)
    other = io.StringIO()
    monkeypatch.setitem(globals(), "WRITTEN", other)
    net(x)
    assert other.getvalue() == "seen\n"


def test_method_of_a_parameter_compiles_without_graph_breaks() -> None:
    class Net(FlowModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def flow(self, x: Any) -> Any:
            return x * self.weight.mean()

    net, x = Net(), torch.ones(3)
    net(x)
    assert not any("__self__" in check for plans in net._flodl_plans.values() for each in plans.programs
                   for check in each.spec.checks)  # fmt: skip
    net.weight = nn.Parameter(torch.full((3,), 2.0))
    assert torch.equal(net(x), torch.full((3,), 2.0))
