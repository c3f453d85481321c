"""Checkpoints through the methods of a graph: whole, in parts, described or not."""

import io

import pytest
import torch
from torch import nn

from flodl import CheckpointError, FlowBuilder, FlowModule, save_checkpoint, view
from flodl.errors import GraphError, UnknownNameError

pytestmark = pytest.mark.torch


def encoder(seed=0):
    torch.manual_seed(seed)
    return FlowBuilder.from_(nn.Linear(4, 8)).through(nn.GELU()).label("encoder").build()


def whole(seed=1):
    torch.manual_seed(seed)
    return FlowBuilder.from_(encoder(seed)).through(nn.Linear(8, 2)).label("whole").build()


def test_a_graph_saves_and_loads_itself(tmp_path):
    graph, other = whole(1), whole(2)
    graph.save_checkpoint(tmp_path / "m.fdl", config="a")
    report = other.load_checkpoint(tmp_path / "m.fdl")
    assert report.missing == report.skipped == ()
    x = torch.randn(3, 4)
    assert torch.equal(graph(x), other(x))
    assert graph.structural_hash() == other.structural_hash()
    assert len(graph.short_hash()) == 8


def test_a_part_trained_alone_goes_into_a_larger_graph(tmp_path):
    part, graph = encoder(5), whole(1)
    part.save_checkpoint(tmp_path / "part.fdl")
    head = [
        each.clone() for name, each in graph.named_parameters() if "linear" in name.split(".")[0]
    ]
    assert graph.load_subgraph_checkpoint("encoder", tmp_path / "part.fdl").missing == ()
    (inside,) = [each for each in graph.children() if isinstance(each, type(part))]
    x = torch.randn(3, 4)
    assert torch.equal(inside(x), part(x))
    kept = [each for name, each in graph.named_parameters() if "linear" in name.split(".")[0]]
    assert all(torch.equal(a, b) for a, b in zip(head, kept, strict=True))
    with pytest.raises(CheckpointError, match="another architecture"):
        graph.load_subgraph_checkpoint("linear_1", tmp_path / "part.fdl")
    with pytest.raises(UnknownNameError, match="known: `encoder`"):
        graph.load_subgraph_checkpoint("nowhere", tmp_path / "part.fdl")


def test_load_subgraph_checkpoint_takes_the_tag_that_freeze_takes(tmp_path):
    torch.manual_seed(0)
    part, head = nn.Linear(4, 4), nn.Linear(4, 4)
    save_checkpoint(tmp_path / "part.fdl", part)
    graph = (
        FlowBuilder.from_(nn.Linear(4, 4))
        .tag("first")
        .through(head)
        .through(torch.relu)
        .tag("plain")
        .build()
    )
    graph.freeze("first")
    report = graph.load_subgraph_checkpoint("first", tmp_path / "part.fdl")
    assert report.missing == report.skipped == ()
    assert torch.equal(next(iter(graph.parameters_at("first"))), part.weight)
    assert not torch.equal(head.weight, part.weight)
    with pytest.raises(GraphError, match="tag `plain` is on a step with no module"):
        graph.load_subgraph_checkpoint("plain", tmp_path / "part.fdl")


class Net(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def flow(self, x):
        return x.also(self.fc)


def test_a_flow_module_before_and_after_its_first_call():
    fresh, called = Net(), Net()
    called(torch.ones(1, 4))
    for one, other in ((fresh, called), (called, fresh)):
        file = io.BytesIO()
        view(one).save_checkpoint(file)
        view(other).load_checkpoint(io.BytesIO(file.getvalue()))
        assert torch.equal(one.fc.weight, other.fc.weight)


def test_a_snapshot_of_a_graph(tmp_path):
    graph, other = whole(1), whole(2)
    snapshot = graph.snapshot_cpu(metrics={"loss": 1.0}, epoch=2)
    with torch.no_grad():
        next(graph.parameters()).zero_()
    snapshot.save(tmp_path / "m.fdl")
    other.load_checkpoint(tmp_path / "m.fdl")
    assert torch.equal(next(other.parameters()), next(whole(1).parameters()))
