"""Changes of the world: which ones are found, and that each is taken back."""

import json

import pytest
import torch
from torch import nn

from flodl_verify.sides.world_changes import DType, Flag, Swap, as_fields, changes_of, of_fields

pytestmark = pytest.mark.torch


class Config:
    def __init__(self):
        self._scale = 2.0
        self.unread = 1
        self.mode = "sum"

    @property
    def scale(self):
        return self._scale

    @scale.setter
    def scale(self, value):
        self._scale = value


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.pre_norm = True
        self.unmentioned = 3
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        x = x * self.config.scale
        x = self.norm(x) if self.pre_norm else x
        return x if self.config.mode == "sum" else x.mean() if self.config.mode == "avg" else -x


def test_changes_of_a_block_are_its_flags_tensors_and_dtype():
    found = changes_of(Block())
    assert Flag("", ("config", "scale"), 3.0) in found
    assert Flag("", ("config", "mode"), "avg") in found
    assert Flag("", ("pre_norm",), False) in found
    assert not any("unread" in str(each) or "unmentioned" in str(each) for each in found)
    assert found[:3] == (Swap("_buffers"), Swap("_parameters"), DType(torch.float64))


def test_every_change_changes_the_model_and_is_taken_back():
    block, x = Block().eval(), torch.randn(3, 4)
    first = block(x)
    keys = [
        (name, id(each), each.dtype) for name, each in block.state_dict(keep_vars=True).items()
    ]
    for change in changes_of(block):
        undo = change.apply(block)
        try:
            other = block(x.to(block.norm.weight.dtype))
            same_kind = (other.dtype, other.shape) == (first.dtype, first.shape)
            assert not same_kind or not torch.equal(other, first)
        finally:
            undo()
        assert torch.equal(block(x), first)
        now = [
            (name, id(each), each.dtype) for name, each in block.state_dict(keep_vars=True).items()
        ]
        assert now == keys


def test_shared_configuration_is_changed_once():
    config = Config()
    blocks = nn.Sequential(Block(), Block())
    for block in blocks:
        block.config = config
    scales = [each for each in changes_of(blocks) if "scale" in str(each)]
    assert len(scales) == 1


def test_tied_weights_stay_tied_when_they_are_swapped():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    undo = Swap("_parameters").apply(net)
    assert net[1].weight is net[0].weight
    undo()
    assert net[1].weight is net[0].weight


@pytest.mark.parametrize("change", changes_of(Block()), ids=str)
def test_change_as_fields_is_the_same_change(change):
    assert of_fields(json.loads(json.dumps(as_fields(change)))) == change


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "other"},
        {"kind": "swap", "table": "_modules"},
        {"kind": "dtype", "dtype": "torch.int8"},
        {"kind": "flag", "module": "", "path": [], "value": 1},
        {"kind": "flag", "module": "", "path": [1], "value": 1},
        {"kind": "flag", "module": None, "path": ["a"], "value": 1},
        {"kind": "flag", "module": "", "path": ["a"], "value": [1]},
    ],
)
def test_fields_of_another_form_are_refused(fields):
    with pytest.raises((KeyError, TypeError, ValueError)):
        of_fields(fields)
