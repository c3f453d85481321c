"""`Field` takes one value out of what a stage returns, in builders and flows."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from flodl import Field, FlowBuilder, FlowModule, GraphError, view

pytestmark = pytest.mark.torch


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


RESULTS = {
    "tuple": (lambda a, b: (a, b), Field(1)),
    "list": (lambda a, b: [a, b], Field(-1)),
    "mapping": (lambda a, b: OrderedDict(first=a, second=b), Field("second")),
    "named tuple": (Pair, Field("second")),
    "object": (lambda a, b: SimpleNamespace(first=a, second=b), Field("second")),
}


class Two(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.make = make

    def forward(self, x):
        return self.make(self.a(x), self.b(x))


@pytest.mark.parametrize("kind", RESULTS)
def test_field_takes_a_value_in_a_builder_and_in_a_flow(kind):
    make, field = RESULTS[kind]
    two, head = Two(make), nn.Linear(4, 2)
    graph = FlowBuilder.from_(two).through(field).through(head).build()

    class Flows(FlowModule):
        def __init__(self):
            super().__init__()
            self.two, self.head = two, head

        def flow(self, x):
            return x.through(self.two).through(field).through(self.head)

    x = torch.randn(3, 4)
    for module in (graph, Flows()):
        for _ in range(2):
            assert torch.equal(module(x), head(two.b(x)))


def graph_of(key: str | int):
    return FlowBuilder.from_(Two(Pair)).through(Field(key)).through(nn.Linear(4, 2)).build()


def test_field_names_its_node_after_the_value():
    assert "second_1 = second_(two_1)" in str(graph_of("second"))
    assert "item_0_1 = item_0_(two_1)" in str(graph_of(0))
    assert "second_1" in [each.name for each in view(graph_of("second")).names("*")]


def test_graph_with_a_field_is_copied_pickled_and_compiled():
    graph = FlowBuilder.from_(Two(OrderedPair())).through(Field("second")).build()
    x = torch.randn(3, 4)
    wanted = graph(x)
    for made in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert torch.equal(made(x), wanted)
    assert torch.equal(torch.compile(graph, backend="eager", fullgraph=True)(x), wanted)


class OrderedPair:
    def __call__(self, a, b):
        return {"first": a, "second": b}


@pytest.mark.parametrize(
    ("value", "key", "said"),
    [
        ({"logits": 1, "loss": 2}, "states", "no 'states' in a dict; it has logits, loss"),
        ((1, 2), 2, "no 2 in a tuple; it has 2 values, from 0 on"),
        (torch.ones(2), "logits", "no 'logits' in a Tensor; give a key that it has"),
    ],
)
def test_field_that_is_not_there_names_those_that_are(value, key, said):
    with pytest.raises(GraphError, match=said):
        Field(key)(value)
