"""What the turns of a loop publish: the values, their gradients, copies, names that clash."""

import copy
import pickle

import pytest
import torch
from torch import nn

from flodl import FlowBuilder, FlowModule, GraphError, LoopBody, TraceEmit, UnknownNameError, view

pytestmark = pytest.mark.torch


class Refine(LoopBody):
    """Three layers' worth of refinement; publishes an error at even turns only."""

    def __init__(self, name="error"):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.name = name
        self.turn = 0

    def reset(self):
        self.turn = 0

    def step(self, x, refs, emit):
        after = torch.tanh(self.layer(x)) + sum(refs.values())
        emit.publish("state", after)
        if self.turn % 2 == 0:
            emit.publish(self.name, (after - x).pow(2).mean())
        self.turn += 1
        return after


class Counting(LoopBody):
    def step(self, x, refs, emit):
        return x + 1

    def trace(self):
        return torch.tensor(7.0)


def same(found, expected):
    return all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def by_hand(body, x, turns, extra=0.0):
    states, errors = [], []
    for turn in range(turns):
        after = torch.tanh(body.layer(x)) + extra
        states.append(after)
        if turn % 2 == 0:
            errors.append((after - x).pow(2).mean())
        x = after
    return x, states, errors


@pytest.mark.parametrize("kind", ["for", "while", "until"])
def test_traces_are_the_values_of_the_turns(kind):
    body = Refine()
    loop = FlowBuilder.new().loop_body(body)
    never = nn.Threshold(1e9, -1.0)
    graph = {
        "for": lambda: loop.for_n(5),
        "while": lambda: loop.while_cond(never, 5),
        "until": lambda: loop.until_cond(never, 5),
    }[kind]().build()
    x = torch.randn(2, 4)
    for _ in range(2):  # cleared at every forward
        y = graph(x)
        expected, states, errors = by_hand(body, x, 5)
        assert torch.equal(y, expected)
        assert same(graph.traces("state"), states)
        assert same(graph.traces("error"), errors)
        assert torch.equal(graph.last_trace("error"), errors[-1])


def test_a_loss_may_use_traces():
    body = Refine()
    graph = FlowBuilder.new().loop_body(body).for_n(4).build()
    x = torch.randn(3, 4)
    graph(x)
    sum(graph.traces("error")).backward()
    found = [each.grad.clone() for each in body.parameters()]
    graph.zero_grad()
    sum(by_hand(body, x, 4)[2]).backward()
    assert same(found, (each.grad for each in body.parameters()))


def test_tagged_values_reach_the_step():
    body = Refine()
    graph = FlowBuilder.new().tag("c").loop_body(body).for_n(2).using("c").build()
    x = torch.randn(1, 4)
    assert torch.equal(graph(x), by_hand(body, x, 2, extra=x)[0])
    assert len(graph.traces("state")) == 2


def test_in_a_flow_module():
    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.body = Refine()

        def flow(self, x):
            return x.loop_body(self.body).for_n(3).tag("refined")

    net = Net()
    outer = FlowBuilder.from_(net).build()
    outer(torch.randn(1, 4))
    assert len(view(net).traces("state")) == len(view(outer).traces("state")) == 3


def test_trace_is_read_by_the_tag_of_its_loop():
    graph = FlowBuilder.new().loop_body(Counting()).for_n(3).tag("count").build()
    graph(torch.zeros(1))
    assert graph.traces("count") == [torch.tensor(7.0)] * 3


def test_called_as_a_module_it_keeps_nothing():
    body = Refine()
    x = torch.randn(1, 4)
    assert torch.equal(body(x), by_hand(body, x, 1)[0])
    assert torch.equal(body.step(x, {}, TraceEmit.discard()), body(x))
    assert vars(body)["_traces"] is None


def test_copies_and_pickles_leave_traces_behind():
    graph = FlowBuilder.new().loop_body(Refine()).for_n(2).build()
    x = torch.randn(1, 4)
    y = graph(x)
    for made in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        with pytest.raises(UnknownNameError, match="published: nothing"):
            made.traces("state")
        assert torch.equal(made(x), y)
    assert len(graph.traces("state")) == 2


@pytest.mark.slow
def test_compiled_as_one_graph():
    graph = FlowBuilder.new().loop_body(Refine()).for_n(3).build()
    x = torch.randn(2, 4)
    expected = graph(x), graph.traces("state")
    compiled = torch.compile(graph, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), expected[0])
    assert same(graph.traces("state"), expected[1])


def test_names_that_cannot_be_read():
    two = (
        FlowBuilder.new().loop_body(Refine()).for_n(2).loop_body(Refine("other")).for_n(2).build()
    )
    two(torch.randn(1, 4))
    with pytest.raises(GraphError, match="several loops"):
        two.traces("state")
    assert len(two.traces("other")) == 1
    with pytest.raises(
        UnknownNameError, match=r"published `nothing_such` \(published: error, other, state"
    ):
        two.traces("nothing_such")
    plain = FlowBuilder.new().loop_body(nn.Linear(4, 4)).for_n(2).build()
    with pytest.raises(UnknownNameError, match=r"no loop of this graph has a flodl\.LoopBody"):
        plain.traces("state")


def test_published_twice_in_a_turn():
    class Twice(LoopBody):
        def step(self, x, refs, emit):
            emit.publish("a", x)
            emit.publish("a", x)
            return x

    graph = FlowBuilder.new().loop_body(Twice()).for_n(1).build()
    with pytest.raises(GraphError, match="published twice") as caught:
        graph(torch.zeros(1))
    assert any("turn 1" in note for note in caught.value.__notes__)


def test_a_body_without_step():
    graph = FlowBuilder.new().loop_body(LoopBody()).for_n(1).build()
    with pytest.raises(NotImplementedError, match="defines no step"):
        graph(torch.zeros(1))
