"""Comparison of two models: what is told, what is not, and laws that hold for any two."""

import copy
import json
import xml.etree.ElementTree as ET

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import flodl
from flodl import Flow, FlowModule
from flodl.errors import NotRecordedError
from flodl.inspect.comparison import compare, diff, facts, read_facts


class Block(nn.Module):
    def __init__(self, width, activation=torch.relu):
        super().__init__()
        self.up = nn.Linear(width, width)
        self.activation = activation

    def forward(self, x):
        return x + self.activation(self.up(x))


class Net(nn.Module):
    def __init__(self, depth=2, width=8, head="fc", activation=torch.relu):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width, activation) for _ in range(depth)))
        self.add_module(head, nn.Linear(width, 3))
        self.last = head

    def forward(self, x):
        return self.get_submodule(self.last)(self.blocks(x))


class Flowing(FlowModule):
    def __init__(self, wide=False):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.wide = wide

    def flow(self, x: Flow) -> Flow:
        x = x.through(self.lin)
        if x.size(0) > 1:
            x = x * 2
        return x.through(torch.tanh) if self.wide else x.through(torch.relu)


def told(found):
    return {each.path: (each.change, each.was, each.details) for each in found.changes}


def test_diff_of_equal_models_is_false_and_says_so():
    found = diff(Net(), Net())
    assert not found
    assert str(found) == "no difference: 7 parts, 171 parameters"


def test_diff_of_other_weights_is_none():
    model = Net()
    trained = copy.deepcopy(model)
    with torch.no_grad():
        trained.fc.weight.add_(1)
    assert not diff(model, trained)


def test_diff_names_a_block_that_was_added_and_the_step_that_calls_it():
    found = diff(Net(2), Net(3))
    assert told(found) == {
        "blocks": ("changed", "", ("- return 1", "+ 2 = Block(1)", "+ return 2")),
        "blocks.2": ("added", "", ("2 parts; 72 parameters",)),
    }
    assert found.after.parameters - found.before.parameters == 72


def test_diff_the_other_way_names_what_was_removed():
    found = diff(Net(3), Net(2))
    assert told(found)["blocks.2"] == ("removed", "", ("2 parts; 72 parameters",))
    assert str(found).startswith("Net -> Net: 1 removed, 1 changed; parameters 243 -> 171 (-72)\n")


def test_diff_of_a_renamed_layer_is_a_move():
    found = told(diff(Net(), Net(head="head")))
    assert found["head"] == ("moved", "fc", ())
    assert "fc" not in found
    assert found[""][2] == (
        "- fc = Linear(blocks)",
        "- return fc",
        "+ head = Linear(blocks)",
        "+ return head",
    )


def test_diff_of_a_renamed_layer_of_another_size_is_no_move():
    found = told(diff(Net(), Net(head="head", width=9)))
    assert found["head"][0] == "added"
    assert found["fc"][0] == "removed"


def test_diff_of_layers_without_tensors_never_moves_them():
    found = told(diff(nn.ModuleDict({"a": nn.ReLU()}), nn.ModuleDict({"b": nn.ReLU()})))
    assert {path: change for path, (change, _, _) in found.items() if path} == {
        "a": "removed",
        "b": "added",
    }


def test_diff_names_settings_tensors_and_wiring():
    old, new = Net(), Net(activation=torch.tanh)
    new.fc.weight.requires_grad_(False)
    new.blocks[0].up = nn.Linear(8, 8, bias=False)
    found = told(diff(old, new))
    assert found["fc"][2] == ("weight: float32[3, 8] -> float32[3, 8] frozen",)
    assert found["blocks.0.up"][2] == ("bias=True -> bias=False", "bias: float32[8] -> absent")
    assert "+ tanh = torch.tanh(up)" in found["blocks.1"][2]


def test_diff_names_buffers_and_dtypes():
    old, new = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    new.running_mean = torch.zeros(3, dtype=torch.float64)
    del new.num_batches_tracked
    assert told(diff(old, new))[""][2] == (
        "num_batches_tracked: int64[] buffer -> absent",
        "running_mean: float32[3] buffer -> float64[3] buffer",
    )


def test_diff_with_inputs_compares_outputs_and_macs():
    old, new = nn.Sequential(nn.Linear(4, 8)), nn.Sequential(nn.Linear(4, 9))
    assert not any("output" in line for each in diff(old, new).changes for line in each.details)
    found = diff(old, new, torch.ones(2, 4))
    assert "output: 2x8 float32 -> 2x9 float32" in told(found)["0"][2]
    assert "MACs 64 -> 72 (+8)" in str(found)


def test_diff_of_a_lazy_layer_says_that_its_shape_is_unknown():
    found = told(diff(nn.Sequential(nn.LazyLinear(3)), nn.Sequential(nn.Linear(4, 3))))
    assert "weight: float32of unknown shape -> float32[3, 4]" not in found["0"][2]
    assert "weight: float32 of unknown shape -> float32[3, 4]" in found["0"][2]


def test_diff_of_flows_compares_their_steps():
    old, new = Flowing(), Flowing(wide=True)
    with pytest.raises(NotRecordedError):
        diff(old, new)
    found = diff(old, new, torch.ones(1, 4))
    (change,) = found.changes
    assert change.path == ""
    assert [line.split("torch.")[-1] for line in change.details if "torch." in line] == [
        "relu(lin)",
        "tanh(lin)",
    ]


def test_diff_leaves_models_as_they_are():
    old, new = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)), nn.Sequential(nn.Linear(4, 4))
    before = copy.deepcopy(old.state_dict())
    state = torch.get_rng_state()
    diff(old, new, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))
    assert all(torch.equal(value, before[name]) for name, value in old.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert not old[0]._forward_hooks


def test_picture_colours_new_changed_and_outer_parts(tmp_path):
    old, new = Net(2), Net(3, head="head")
    new.blocks[0].up = nn.Linear(8, 8, bias=False)
    text = flodl.view(old).diff(new).svg(tmp_path / "d.svg", depth=1)
    assert (tmp_path / "d.svg").read_text() == text
    ET.fromstring(text)
    for word in ("added", "moved", "changed inside", "differences"):
        assert word in text
    outer = flodl.view(old).diff(new).svg()
    assert "changed" in outer
    assert ">added<" not in outer


def test_facts_survive_json_and_have_no_picture():
    old, new = facts(Net(2), torch.ones(1, 8)), facts(Net(3), torch.ones(1, 8))
    assert read_facts(old.to_json()) == old
    found = compare(read_facts(old.to_json()), new)
    document = json.loads(found.to_json())
    assert document["parameters"] == [171, 243]
    assert [each["path"] for each in document["changes"]] == [each.path for each in found.changes]
    with pytest.raises(ValueError, match="compare the models themselves"):
        found.svg()


SHAPES = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([nn.Linear, nn.Bilinear, nn.Identity])),
    max_size=5,
)


def built(shape):
    made = nn.ModuleDict()
    for name, kind in shape:
        sizes = {nn.Linear: (2, 3), nn.Bilinear: (2, 2, 2), nn.Identity: ()}[kind]
        made[name] = kind(*sizes)
    return made


@given(SHAPES, SHAPES)
def test_diff_accounts_for_every_part(one, other):
    """Every path of either model is equal in both, or in exactly one change."""
    old, new = built(one), built(other)
    found = diff(old, new)
    before = {each.path: replace_path(each) for each in found.before.parts}
    after = {each.path: replace_path(each) for each in found.after.parts}
    paths = [each.path for each in found.changes] + [e.was for e in found.changes if e.was]
    assert sorted(paths) == sorted(set(paths))
    for path in {*before, *after} - {""}:
        same = path in before and path in after and before[path] == after[path]
        assert same != (path in paths)


def replace_path(part):
    return (part.kind, part.settings, tuple(part.tensors.items()))
