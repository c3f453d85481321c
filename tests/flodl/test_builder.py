"""FlowBuilder: what the words wire, what they name, and that every mistake is reported with its line."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from flodl import Add, BuildError, Cat, FlowBuilder, Graph, ThresholdHalt

pytestmark = pytest.mark.torch
THIS = Path(__file__)


def line_of(text: str) -> int:
    """Return the number of the first line of this file that contains a marker."""
    return next(
        n for n, line in enumerate(THIS.read_text().splitlines(), 1) if f"# {text}" in line
    )


def test_names_follow_tags_then_kinds():
    graph = (
        FlowBuilder.from_(nn.Linear(4, 4))
        .through(nn.GELU())
        .tag("hidden")
        .through(nn.Linear(4, 4))
        .split(nn.Linear(4, 2), nn.Linear(4, 2))
        .tag_group("head")
        .merge(Cat(dim=1))
        .build()
    )
    assert list(graph._modules) == ["linear_1", "hidden", "linear_2", "head_0", "head_1"]
    assert [tag.name for tag in graph.spec.tags] == ["hidden", "head_0", "head_1"]
    assert graph.spec.groups[0].tags == ("head_0", "head_1")


@pytest.mark.parametrize("last", [False, True])
def test_the_stream_is_merged_with_tagged_values(last):
    down, up = nn.Linear(4, 3), nn.Linear(3, 2)
    graph = (
        FlowBuilder.from_(down)
        .tag("skip")
        .through(up)
        .merge(Cat(dim=1), last=last)
        .using("skip")
        .build()
    )
    x = torch.randn(5, 4)
    parts = [up(down(x)), down(x)]
    assert torch.equal(graph(x), torch.cat(parts[::-1] if last else parts, dim=1))


def test_a_merge_with_tagged_values_needs_one_stream():
    with pytest.raises(BuildError, match="merge needs one stream, but 2 branches are open"):
        (
            FlowBuilder.from_(nn.ReLU())
            .tag("skip")
            .split(nn.ReLU(), nn.Tanh())
            .merge(Add())
            .using("skip")
            .build()
        )


def test_a_node_of_another_kind_renames_nothing():
    def keys(extra: bool) -> list[str]:
        builder = FlowBuilder.from_(nn.Linear(4, 4))
        builder = builder.through(nn.LayerNorm(4)) if extra else builder
        return [
            key for key in builder.through(nn.Linear(4, 4)).build().state_dict() if "linear" in key
        ]

    assert keys(extra=False) == keys(extra=True)


def test_a_shared_module_is_registered_once():
    layer = nn.Linear(4, 4)
    graph = FlowBuilder.from_(layer).through(torch.relu).through(layer).build()
    assert list(graph.state_dict()) == ["linear_1.weight", "linear_1.bias"]
    x = torch.randn(2, 4)
    assert torch.equal(graph(x), layer(torch.relu(layer(x))))


def test_builders_are_values():
    stem = FlowBuilder.from_(nn.Linear(4, 4))
    one, two = stem.through(torch.relu).build(), stem.through(torch.tanh).build()
    x = torch.randn(2, 4)
    assert torch.equal(one(x), torch.relu(stem.steps[0].args[0](x)))
    assert torch.equal(two(x), torch.tanh(stem.steps[0].args[0](x)))


def test_a_class_is_made_an_instance():
    graph = FlowBuilder.from_(nn.Linear(4, 4)).through(nn.ReLU).build()
    assert isinstance(graph.relu_1, nn.ReLU)


def test_fork_goes_on_with_the_stream_and_names_the_side():
    graph = (
        FlowBuilder.from_(nn.Identity())
        .fork(nn.Linear(4, 2))
        .tag("side")
        .through(torch.relu)
        .tag("main")
        .build()
    )
    x = torch.randn(2, 4)
    assert torch.equal(graph(x), torch.relu(x))
    names = {tag.name: graph.spec.nodes[tag.node].kind for tag in graph.spec.tags}
    assert names == {"side": "module", "main": "function"}


def test_a_tag_later_than_the_fork_names_the_stream():
    graph = (
        FlowBuilder.from_(nn.Identity()).fork(nn.Linear(4, 2)).through(torch.relu).tag("t").build()
    )
    assert graph.spec.nodes[graph.spec.tags[0].node].target == "torch.relu"


class Weigh(nn.Module):
    def forward(self, x, gain, *, shift):
        return x * gain + shift


class Named(nn.Module):
    def forward_named(self, x, refs):
        return x + refs["gain"] * 2


def test_using_hands_over_inputs_and_tags():
    graph = (
        FlowBuilder.from_(nn.Identity())
        .input("gain", "bias")
        .through(Weigh())
        .using("gain", shift="bias")
        .through(Named())
        .using("gain")
        .build()
    )
    assert [each.name for each in graph.spec.inputs] == ["x", "gain", "bias"]
    x, gain, bias = torch.randn(2, 4), torch.randn(2, 1), torch.randn(4)
    assert torch.equal(graph(x, gain, bias), x * gain + bias + gain * 2)
    assert torch.equal(graph(x, bias=bias, gain=gain), x * gain + bias + gain * 2)


def test_nested_graphs_nest_by_label():
    inner = FlowBuilder.from_(nn.Linear(4, 4)).tag("fc").label("encoder").build()
    outer = FlowBuilder.from_(inner).through(nn.Linear(4, 2)).build()
    assert next(iter(outer.state_dict())) == "encoder.fc.weight"
    outer = FlowBuilder.from_(nn.Linear(4, 4)).also(inner).build()
    assert isinstance(outer.get_submodule("encoder"), Graph)


def test_internal_and_underscored_tags_are_hidden():
    builder = (
        FlowBuilder.from_(nn.Linear(4, 4)).tag("a").through(torch.relu).tag("_b").internal("a")
    )
    assert all(tag.internal for tag in builder.build().spec.tags)


def test_verbose_writes_the_flow_to_standard_error(capsys):
    FlowBuilder.from_(nn.Linear(4, 4)).verbose().build()
    out, err = capsys.readouterr()
    assert out == ""
    assert "linear_1 = Linear(x)" in err


def test_every_problem_is_reported_with_its_line():
    with pytest.raises(BuildError) as caught:
        (
            FlowBuilder.from_(nn.Linear(2, 2))
            .merge(Add())  # early merge
            .tag("a")
            .through(nn.Linear)  # class
            .through(torch.relu)
            .tag("a")  # twice
            .using("b")  # misplaced using
            .through(Weigh())
            .using("nobody")  # unknown
            .input("x")  # taken
            .loop_body(nn.ReLU())  # loop
            .for_n(-1)
            .also_with(nn.Identity())  # one path
            .split(nn.ReLU(), nn.ReLU())  # open
            .through(nn.Tanh())  # branches
            .internal("ghost")
            .label("a.b")
            .build()  # build
        )
    places = {
        "early merge": "merge without an open split",
        "class": "`Linear` is a class that needs in_features, out_features",
        "twice": "tag `a` is already the name of another value",
        "unknown": "no value is tagged `nobody`",
        "taken": "`x` cannot be the name of an input",
        "loop": "a loop cannot run a negative number of times",
        "one path": "also_with takes two paths",
        "open": "2 branches of the split are still open",
        "branches": "through needs one stream, but 2 branches are open",
        "build": "label `a.b` contains a dot",
    }
    text = str(caught.value)
    for marker, message in places.items():
        assert f"{THIS}:{line_of(marker)}: " in text
        found = [line for line in text.splitlines() if message in line]
        assert found, message
        assert f":{line_of(marker)}: " in found[0]
    assert "using after tag" in text
    assert "internal(`ghost`)" in text
    assert len(caught.value.problems) == 12


def test_shapes_are_checked_without_computing():
    norm = nn.BatchNorm1d(4)
    builder = FlowBuilder.from_(norm).through(nn.Linear(4, 4))
    builder.build(torch.randn(3, 4))
    routed = (
        builder.switch(lambda x: x.argmax(dim=1), nn.Linear(4, 4), nn.Linear(4, 4))
        .loop_body(nn.Linear(4, 4)).while_cond(ThresholdHalt(0.0), 2)
        .loop_body(nn.Linear(4, 4)).until_cond(ThresholdHalt(0.0), 2)
    )  # fmt: skip
    routed.build(torch.randn(3, 4))
    with pytest.raises(RuntimeError, match="dim"):
        builder.switch(lambda x: x.argmax(dim=1), nn.Linear(4, 4), nn.Linear(6, 4)).build(
            torch.randn(3, 4)
        )
    assert int(norm.num_batches_tracked) == 0
    with pytest.raises(RuntimeError) as caught:
        builder.through(nn.Linear(5, 2)).tag("head").build(torch.randn(3, 4))
    assert "node `head` (Linear)" in caught.value.__notes__[0]


def test_lambdas_run_but_name_themselves_when_pickled():
    graph = FlowBuilder.from_(nn.Linear(4, 4)).through(lambda x: x * 2).build()
    x = torch.randn(2, 4)
    assert torch.equal(graph(x), graph.linear_1(x) * 2)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(graph)


def test_from_sequential_keeps_keys():
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 2)))
    graph = Graph.from_sequential(plain)
    assert list(graph.state_dict()) == list(plain.state_dict())
    x = torch.randn(2, 4)
    assert torch.equal(graph(x), plain(x))


def test_text_and_dot_show_every_node():
    graph = FlowBuilder.from_(nn.Linear(4, 4)).also(nn.Tanh()).tag("sum").label("net").build()
    assert str(graph).splitlines() == [
        "Graph `net`(x)",
        "  linear_1 = Linear(x)",
        "  tanh_1 = Tanh(linear_1)",
        "  add_1 = add(linear_1, tanh_1)  # tag sum",
        "  return add_1",
    ]
    dot = graph.dot()
    assert dot.count(" -> ") == 5
    assert 'digraph "net"' in dot
