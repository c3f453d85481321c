"""What a graph asks of the modules in it, and no more: reset, detach_state; and what it leaves behind."""

import gc
import weakref

import pytest
import torch
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule

pytestmark = pytest.mark.torch


class Cell(nn.Module):
    """An ordinary recurrent module that keeps its hidden state on itself."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.hidden: torch.Tensor | None = None
        self.resets = 0

    def reset(self) -> None:
        self.hidden = None
        self.resets += 1

    def detach_state(self) -> None:
        self.hidden = None if self.hidden is None else self.hidden.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden = self.cell(x, self.hidden)
        return self.hidden


def test_a_body_is_reset_before_the_first_turn_of_every_forward():
    body = Cell()
    graph = FlowBuilder.new().loop_body(body).for_n(3).build()
    x = torch.randn(2, 3)
    first, second = graph(x), graph(x)
    assert torch.equal(first, second)
    assert body.resets == 2


def test_a_module_with_a_hidden_state_keeps_it_between_forwards():
    body, twin = Cell(), Cell()
    twin.load_state_dict(body.state_dict())
    graph = FlowBuilder.from_(body).build()
    for x in torch.randn(4, 2, 3):
        assert torch.equal(graph(x), twin(x))
    graph.end_sequence()
    assert body.hidden is None


def test_detaching_reaches_modules_in_nested_graphs():
    body = Cell()
    graph = FlowBuilder.from_(FlowBuilder.from_(nn.Sequential(body)).build()).build()
    graph(torch.randn(2, 3))
    assert body.hidden is not None
    assert body.hidden.requires_grad
    graph.detach_state()
    assert not body.hidden.requires_grad


def test_children_are_ordinary_children():
    body = Cell()
    graph = FlowBuilder.from_(body).through(nn.ReLU()).build()
    assert list(graph.children()) == [body, graph.relu_1]
    assert [name for name, _ in graph.named_modules()] == ["", "cell_1", "cell_1.cell", "relu_1"]


class Tagged(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.layer).tag("hidden").also(self.layer)


@pytest.mark.parametrize(
    "make",
    [Tagged, lambda: FlowBuilder.from_(nn.Linear(3, 3)).tag("hidden").also(nn.Tanh()).build()],
)
def test_memory_is_freed_without_the_garbage_collector(make):
    gc.collect()
    gc.disable()
    try:
        graph = make()
        graph(torch.randn(2, 3)).sum().backward()
        weight = weakref.ref(next(graph.parameters()))
        x = torch.randn(2, 3, requires_grad=True)
        output = graph(x)
        held_by_history = weakref.ref(x)
        del x, output
        assert held_by_history() is None, "a tag kept the autograd graph alive"
        del graph
        assert weight() is None, "the graph is part of a reference cycle"
    finally:
        gc.enable()


def test_the_recorded_call_keeps_no_activation_alive():
    seen = []

    class Watching(nn.Module):
        def forward(self, x):
            seen.append(weakref.ref(x))
            return x * 2

    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.watch = Watching()

        def flow(self, x):
            b, _ = x.size()
            return (x + 1).through(self.watch).reshape(b, -1).tag("doubled") + 1

    gc.disable()
    try:
        with torch.no_grad():
            Net()(torch.randn(2, 3))
        assert seen
        assert all(each() is None for each in seen)
    finally:
        gc.enable()


def test_a_line_more_or_less_changes_no_other_key():
    def model(*, extra: bool, side: bool):
        builder = FlowBuilder.from_(nn.Linear(3, 3)).tag("encoder")
        if extra:
            builder = builder.through(nn.LayerNorm(3)).tag("norm")
        if side:
            builder = builder.fork(nn.Linear(3, 1)).tag("probe")
        return builder.through(nn.Linear(3, 2)).tag("head").build()

    plain = set(model(extra=False, side=False).state_dict())
    assert plain == {"encoder.weight", "encoder.bias", "head.weight", "head.bias"}
    for extra in (False, True):
        for side in (False, True):
            assert plain <= set(model(extra=extra, side=side).state_dict())
