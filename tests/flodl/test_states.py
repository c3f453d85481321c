"""States of a flow, across calls: references, copies, compiled, and the end of a step."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from flodl import Flow, FlowBuilder, FlowError, FlowModule, GraphError
from flodl.nn.routers import (
    StateAdd,
)

pytestmark = pytest.mark.torch


def accumulator() -> nn.Module:
    return FlowBuilder.from_(StateAdd()).using("memory").tag("memory").build()


def test_reference_trace_of_an_additive_state():
    graph, x = accumulator(), torch.tensor([[1.0, 2.0]])
    assert not graph.has_state()
    assert [graph(x).tolist() for _ in range(3)] == [[[1, 2]], [[2, 4]], [[3, 6]]]
    assert graph.has_state()
    graph.reset_state()
    assert graph(x).tolist() == [[1, 2]]


def test_backward_and_forward_references_mix():
    graph = (
        FlowBuilder.new()
        .tag("ctx")
        .through(StateAdd())
        .using("ctx", "memory")
        .tag("memory")
        .build()
    )
    x = torch.tensor([[1.0, 2.0]])
    assert graph(x).tolist() == [[2, 4]]
    assert graph(x).tolist() == [[4, 8]]


def test_initial_values_and_learnt_shapes():
    class Widen(nn.Module):
        def forward_named(self, x, refs):
            return torch.cat([x, refs["wide"][:, :2]], dim=1)

    graph = (
        FlowBuilder.from_(Widen())
        .using("wide")
        .tag("wide")
        .initial("wide", lambda x: torch.full((x.size(0), 5), 7.0))
        .build()
    )
    x = torch.zeros(2, 3)
    assert graph(x)[0].tolist() == [0, 0, 0, 7, 7]
    assert graph(x)[0].tolist() == [0, 0, 0, 0, 0]
    learnt = accumulator()
    learnt(torch.ones(2, 3))
    learnt.end_sequence()
    assert learnt(torch.ones(5, 3)).shape == (5, 3)


def test_another_batch_size_is_an_error_until_the_sequence_ends():
    graph = accumulator()
    graph(torch.ones(2, 3))
    with pytest.raises(GraphError, match=r"batch of 2, this batch has 4.*end_sequence"):
        graph(torch.ones(4, 3))
    graph.end_sequence()
    graph(torch.ones(4, 3))


class Recurrent(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def flow(self, x: Flow) -> Flow:
        memory = x.previous("memory")
        return torch.tanh((x + memory).through(self.cell)).tag("memory")


def test_previous_in_a_class_equals_a_hand_written_loop():
    module = Recurrent()
    xs = torch.randn(4, 2, 3)
    memory = torch.zeros(2, 3)
    loss = expected = torch.zeros(())
    for x in xs:
        memory = torch.tanh(module.cell(x + memory))
        expected = expected + memory.sum()
        loss = loss + module(x).sum()
    assert torch.equal(loss, expected)
    mine = torch.autograd.grad(loss, module.cell.weight)
    assert torch.equal(mine[0], torch.autograd.grad(expected, module.cell.weight)[0])


def test_end_step_cuts_history_in_nested_graphs_too():
    inner = (
        FlowBuilder.from_(nn.Linear(3, 3))
        .also(StateAdd())
        .using("m")
        .tag("m")
        .label("inner")
        .build()
    )
    outer = FlowBuilder.from_(inner).through(nn.Linear(3, 3)).build()
    outer(torch.randn(2, 3))
    assert inner._flodl_memory.values["m"].requires_grad
    outer.end_step()
    assert not inner._flodl_memory.values["m"].requires_grad
    assert (outer.step_count, outer.epoch_count) == (1, 0)
    outer.end_epoch()
    assert (outer.step_count, outer.epoch_count) == (0, 1)
    outer.end_sequence()
    assert not outer.has_state()


def history(value: torch.Tensor) -> int:
    """Return the number of autograd nodes behind a value."""
    seen, waiting = set(), [value.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return len(seen)


def test_memory_is_bounded_when_end_step_is_forgotten():
    module = Recurrent()
    lengths: list[int] = []

    def run() -> None:
        for _ in range(200):
            module(torch.randn(2, 3))
            value = module._flodl_memory.values["memory"]
            lengths.append(history(value) if value.requires_grad else 0)

    with pytest.warns(UserWarning, match="call end_step"):
        run()
    assert max(lengths) == max(lengths[:70])
    assert lengths.count(0) == 3


def test_state_travels_with_copies_and_moves_but_is_no_weight():
    module = Recurrent()
    x = torch.randn(2, 3)
    module(x)
    assert list(module.state_dict()) == ["cell.weight", "cell.bias"]
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(made(x), copy.deepcopy(module)(x))
        assert not torch.equal(
            made._flodl_memory.values["memory"], module._flodl_memory.values["memory"]
        )
    assert module.double()(x.double()).dtype == torch.float64


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_state_under_compile():
    module, twin = Recurrent(), Recurrent()
    twin.load_state_dict(module.state_dict())
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    for _ in range(3):
        x = torch.randn(2, 3)
        torch.testing.assert_close(compiled(x), twin(x))


def test_a_state_that_is_never_written_is_an_error():
    class Reads(FlowModule):
        def flow(self, x):
            return x + x.previous("ghost")

    with pytest.raises(FlowError, match="tags no value so"):
        Reads()(torch.ones(2))
