"""Values of tensors for a page: which are held, which are left out, and why."""

import struct
import zlib
from base64 import b64decode

import pytest
import torch
from torch import nn

from flodl.inspect import pictures
from flodl.inspect.drawing import part_of
from flodl.inspect.facts import tensor_values
from flodl.inspect.facts.details import detailed
from flodl.inspect.facts.tensor_values import values_of

pytestmark = pytest.mark.torch


def held(model, weights):
    found = values_of(model, weights)
    return {each.name: each for own in found.values() for each in own.values()}


def raw(values):
    data = b64decode(values.data)
    return zlib.decompress(data) if values.packed else data


def test_values_of_small_tensors_come_first_and_the_rest_name_the_option(monkeypatch):
    monkeypatch.setattr(tensor_values, "LIMITS", {"none": 0, "small": 40, "all": 120})
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(2, 4))  # of 64 + 16 and 32 + 16 bytes
    small = held(model, "small")
    assert [name for name, each in small.items() if not each.left_out] == ["0.bias", "1.bias"]
    assert small["1.weight"].left_out == (
        "32 B of values are left out: "
        '--weights all (in Python weights="all") writes up to 120 B into the page'
    )
    everything = held(model, "all")
    assert [name for name, each in everything.items() if each.left_out] == ["0.weight"]
    assert everything["0.weight"].left_out == (
        "64 B of values are left out: a page holds at most 120 B of them"
    )
    assert all(each.left_out and not each.data for each in held(model, "none").values())


def test_values_are_the_bytes_of_the_tensor_in_order():
    model = nn.Linear(3, 2)
    model.weight = nn.Parameter(torch.arange(6.0).reshape(3, 2).t())
    model.register_buffer("zeros", torch.zeros(1000))
    found = held(model, "small")
    assert raw(found["weight"]) == struct.pack("<6f", 0, 2, 4, 1, 3, 5)
    assert not found["weight"].packed
    assert found["zeros"].packed
    assert raw(found["zeros"]) == bytes(4000)


def test_values_of_a_conjugate_view_are_those_that_it_shows():
    model = nn.Module()
    model.register_buffer("turned", torch.tensor([1 + 2j]).conj())
    assert raw(held(model, "small")["turned"]) == struct.pack("<2f", 1, -2)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_values_that_cannot_be_shown_say_why():
    model = nn.Module()
    model.register_buffer("sparse", torch.eye(2).to_sparse())
    model.register_buffer("meta", torch.ones(2, device="meta"))
    model.register_buffer(
        "quantized", torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    )
    model.register_buffer("fours", torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
    reasons = {name: each.left_out for name, each in held(model, "all").items()}
    assert reasons == {
        "sparse": "the values cannot be shown: the layout of the tensor is sparse_coo",
        "meta": "the tensor is on the device meta, so it has no values",
        "quantized": "the values cannot be shown: the tensor is quantized to qint8",
        "fours": "the values cannot be shown: a page knows no float4_e2m1fn_x2",
    }


def test_values_of_a_choice_that_does_not_exist_are_refused():
    with pytest.raises(ValueError, match="'most' is unknown: choose 'none', 'small', 'all'"):
        pictures.html(nn.Linear(2, 2), weights="most")


def test_page_holds_the_values_of_tied_tensors_once():
    one, two = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    two.weight = one.weight
    text = pictures.html(nn.Sequential(one, two, nn.Linear(4, 4, bias=False)))
    assert text.count('id="fd-values-') == 2


def test_values_of_a_nested_part_have_the_full_name():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.ReLU())
    part = detailed(model, part_of(model))
    assert part.inner["0"].values["0"]["bias"].name == "0.0.bias"
