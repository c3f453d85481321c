"""Paths, freezing, replacement and summaries on graphs, flow modules and plain modules."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule, GraphError
from flodl.errors import UnknownNameError
from flodl.inspect import tree
from flodl.inspect.paths import PathKind, tag_names, tree_children

pytestmark = pytest.mark.torch


def encoder():
    return (
        FlowBuilder.from_(nn.Linear(4, 8)).tag("first").through(nn.BatchNorm1d(8)).tag("normed")
        .through(torch.relu).tag("_secret").label("encoder").build()
    )  # fmt: skip


def model():
    return (
        FlowBuilder.from_(encoder()).tag("code").through(nn.GELU()).tag("active")
        .through(nn.Linear(8, 2)).tag("head").label("model").build()
    )  # fmt: skip


class Block(FlowModule):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def flow(self, x: Flow) -> Flow:
        return (x.through(self.inner).tag("lin") * self.scale).tag("scaled")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.graph = encoder()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x), self.graph(x)


def test_paths_lead_to_parts_and_tags():
    net = model()
    assert tree.validate_path(net, "encoder") is PathKind.SUBGRAPH is PathKind.Subgraph
    assert tree.validate_path(net, "encoder.first") is PathKind.Tag
    assert [kind.name for kind in PathKind] == ["SUBGRAPH", "TAG"]
    assert tree.validate_path(net, "encoder.first") is PathKind.TAG
    assert tree.validate_path(net, "active") == "tag"
    assert list(tree_children(net)) == ["encoder"]
    assert tree.subgraph(net, "encoder") is tree_children(net)["encoder"]
    assert tree.subgraph(net, "") is net


def test_paths_go_through_plain_modules_too():
    net = Net()
    assert tree.validate_path(net, "blocks.1.lin") is PathKind.TAG
    assert tree.subgraph(net, "blocks.1") is net.blocks[1]
    assert tree.subgraph(net, "encoder") is net.graph
    assert tree.subgraph(net, "graph") is net.graph


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("encodr", ["path `encodr` ends at Graph", "`encodr`", "did you mean `encoder`"]),
        ("encoder.frist", ["path `encoder.frist`", "`frist`", "did you mean `first`"]),
        ("encoder.first.more", ["path `encoder.first.more` ends at Linear", "`more`"]),
        ("encoder._secret", ["`_secret`"]),
        ("encoder.", ["``"]),
    ],
)
def test_wrong_paths_name_the_segment_and_what_there_is(path, words):
    with pytest.raises(UnknownNameError) as caught:
        tree.validate_path(model(), path)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_internal_tags_are_visible_at_home_only():
    inner = encoder()
    assert tree.validate_path(inner, "_secret") is PathKind.TAG
    assert tag_names(inner) == ("first", "normed")


def test_a_tag_is_no_subgraph():
    with pytest.raises(GraphError, match="is a tag of Graph"):
        tree.subgraph(model(), "encoder.first")


def test_a_flow_that_has_not_run_says_so():
    class Asking(FlowModule):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def flow(self, x: Flow) -> Flow:
            return (x.through(self.lin) if x.size(0) > 1 else x).tag("late")

    net = Asking()
    with pytest.raises(UnknownNameError, match="its flow has not run yet"):
        tree.validate_path(net, "late")
    net(torch.ones(2, 4))
    assert tree.validate_path(net, "late") is PathKind.TAG


def test_parameters_of_parts_and_tags():
    net = model()
    names = [name for name, _ in tree.named_parameters_at(net, "encoder")]
    assert names == [name for name, _ in tree.subgraph(net, "encoder").named_parameters()]
    tagged = tree.named_parameters_at(net, "encoder.first")
    assert [name for name, _ in tagged] == ["first/weight", "first/bias"]
    assert tree.parameters_at(net, "head")[0].shape == (2, 8)
    buffers = [name for name, _ in tree.named_buffers_at(net, "encoder.normed")]
    assert "normed/running_mean" in buffers
    assert tree.parameters_at(net, "active") == ()


def test_a_tag_on_arithmetic_has_the_parameters_of_the_arithmetic():
    net = Block()
    ((name, parameter),) = tree.named_parameters_at(net, "scaled")
    assert (name, parameter is net.scale) == ("scaled/scale", True)


def test_freeze_and_thaw_one_line_each():
    net = model()
    before = list(net.state_dict())
    assert tree.freeze(net, "encoder") == 4
    assert tree.is_frozen(net, "encoder")
    assert not tree.is_frozen(net, "head")
    assert len(tree.trainable_parameters(net)) == 2
    assert tree.parameters_at(net, "encoder", trainable_only=True) == ()
    tree.thaw(net, "encoder.first")
    assert not tree.is_frozen(net, "encoder")
    assert tree.is_frozen(net, "encoder.normed")
    assert list(net.state_dict()) == before
    assert len(list(net.parameters())) == 6, "parameters() still returns all of them"


def test_freezing_nothing_is_an_error_and_never_frozen():
    net = model()
    assert not tree.is_frozen(net, "active")
    with pytest.raises(GraphError, match="`active`: the tagged step has no parameters"):
        tree.freeze(net, "active")


def test_a_frozen_boundary_still_lets_gradients_through():
    torch.manual_seed(0)
    net = model()
    tree.freeze(net, "encoder")
    tree.set_training_at(net, "encoder", training=False)
    x = torch.randn(3, 4, requires_grad=True)
    net(x).sum().backward()
    assert all(each.grad is None for each in tree.parameters_at(net, "encoder"))
    assert all(each.grad is not None for each in tree.parameters_at(net, "head"))
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_training_mode_of_one_part():
    net = model()
    tree.set_training_at(net, "encoder", training=False)
    part = tree.subgraph(net, "encoder")
    assert (net.training, part.training) == (True, False)
    assert not any(each.training for each in part.modules())
    tree.set_training_at(net, "encoder.normed", training=True)
    assert sorted(type(e).__name__ for e in part.modules() if e.training) == ["BatchNorm1d"]
    tree.freeze(net, "encoder")
    assert part.get_submodule(next(n for n, m in part.named_modules() if m.training)).training


def test_training_mode_of_a_step_without_a_module_is_refused():
    with pytest.raises(GraphError, match="without a module"):
        tree.set_training_at(Block(), "scaled", training=False)


def test_a_part_can_be_replaced_and_is_used():
    torch.manual_seed(0)
    net, x = Net(), torch.randn(3, 4)
    net(x)
    new = nn.Linear(4, 4)
    old = tree.replace(net, "blocks.0.inner", new)
    assert isinstance(old, nn.Linear)
    expected = net.head(net.blocks[1](F.linear(x, new.weight, new.bias)))
    assert torch.equal(net(x)[0], expected)
    assert [*net.state_dict()][:3] == [
        "blocks.0.scale", "blocks.0.inner.weight", "blocks.0.inner.bias",
    ]  # fmt: skip


def test_a_labelled_child_can_be_swapped():
    torch.manual_seed(0)
    net, x = model().eval(), torch.randn(3, 4)
    before = net(x)
    tree.replace(net, "encoder", encoder().eval())
    assert not torch.equal(net(x), before)
    with pytest.raises(GraphError, match="no parent"):
        tree.replace(net, "", encoder())


def test_optimizer_groups_per_part():
    net = model()
    groups = [
        {"params": tree.parameters_at(net, "encoder"), "lr": 0.0},
        {"params": tree.parameters_at(net, "head"), "lr": 0.5},
    ]
    before = {name: each.clone() for name, each in net.named_parameters()}
    net(torch.randn(3, 4)).sum().backward()
    torch.optim.SGD(groups).step()
    moved = {name for name, each in net.named_parameters() if not torch.equal(each, before[name])}
    assert len(moved) == 2


def test_summaries():
    net = model()
    tree.freeze(net, "encoder")
    assert tree.tree_summary(net).splitlines() == [
        "Graph (6 parameter tensors) #code #active #head",
        "  encoder: Graph (4 parameter tensors, frozen) #first #normed",
    ]
    lines = [line.split() for line in tree.param_summary(net).splitlines()]
    assert lines[0] == ["part", "tensors", "elements", "frozen"]
    assert lines[1] == ["encoder", "4", "56", "4"]
    assert lines[-1] == ["total", "6", "74", "4"]


def walked(net):
    found = []
    tree.walk_modules(net, lambda path, module: found.append((path, module)))
    return found


def test_walk_modules_visits_every_module_once_with_its_path():
    net = Net()
    net.again = net.head
    found = walked(net)
    assert found[0] == ("", net)
    assert {id(module) for _, module in found} == {id(module) for module in net.modules()}
    assert len({id(module) for _, module in found}) == len(found)
    assert all(net.get_submodule(path) is module for path, module in found)
    assert "again" not in dict(found)
    assert list(dict(found)).index("blocks.1") < list(dict(found)).index("blocks.1.inner")


def test_walk_modules_of_a_graph_may_change_the_tree():
    net = model()
    seen = []

    def freeze_norms(path, module):
        seen.append(path)
        if isinstance(module, nn.BatchNorm1d):
            net.subgraph(path.rpartition(".")[0]).add_module("extra", nn.ReLU())

    net.walk_modules(freeze_norms)
    assert not any(path.endswith("extra") for path in seen)
    assert any(path.endswith("extra") for path, _ in walked(net))
