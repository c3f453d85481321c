"""A model of transformers as a part of a graph: inputs by name, outputs by name, weights by path."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import flodl
import flodl.hf
from flodl import Field, FlowBuilder
from tests.flodl.hf.tiny import bert

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def encoder(library):
    return flodl.hf.graph(bert(library)).bert.eval()


@pytest.fixture
def tagger(encoder):
    return (
        FlowBuilder.from_(encoder)
        .input("attention_mask")
        .using(attention_mask="attention_mask")
        .tag("encoder")
        .through(Field("last_hidden_state"))
        .through(nn.Linear(encoder.config.hidden_size, 3))
        .label("tagger")
        .build()
    )


def batch():
    torch.manual_seed(1)
    ids = torch.randint(0, 30, (2, 7))
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 4:] = 0
    return ids, mask


def test_model_in_a_graph_gives_outputs_and_gradients_of_its_parts(encoder, tagger):
    ids, mask = batch()
    head = tagger.linear_1
    wanted = head(encoder(input_ids=ids, attention_mask=mask).last_hidden_state)
    expected = torch.autograd.grad(wanted.sum(), list(tagger.parameters()), allow_unused=True)
    got = tagger(ids, mask)
    assert torch.equal(got, wanted)
    found = torch.autograd.grad(got.sum(), list(tagger.parameters()), allow_unused=True)
    assert [each is None for each in found] == [each is None for each in expected]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True) if a is not None)


def test_values_inside_the_model_are_kept_and_replaced_by_path(encoder, tagger):
    ids, mask = batch()
    name = f"{part_of(encoder, tagger)}.encoder.layer.1.output"
    view = flodl.view(tagger)
    with view.capture(name) as cache:
        wanted = tagger(ids, mask)
    other = (ids + 1) % 30
    with view.intervene({name: cache[name]}):
        assert torch.equal(tagger(other, mask), wanted)
    assert not torch.equal(tagger(other, mask), wanted)


def test_layers_of_the_model_are_frozen_and_thawed_by_path(encoder, tagger):
    view, part = flodl.view(tagger), part_of(encoder, tagger)
    count = view.freeze(f"{part}.encoder.layer.0")
    assert count == len(list(encoder.encoder.layer[0].parameters())) > 0
    assert {each.requires_grad for each in encoder.encoder.layer[0].parameters()} == {False}
    assert {each.requires_grad for each in encoder.encoder.layer[1].parameters()} == {True}
    view.thaw(part)
    assert {each.requires_grad for each in encoder.parameters()} == {True}


def test_weights_of_a_published_folder_are_loaded_into_the_part(encoder, tagger, tmp_path):
    encoder.save_pretrained(tmp_path)
    wanted = {name: item.clone() for name, item in encoder.state_dict().items()}
    with torch.no_grad():
        for each in encoder.parameters():
            each.zero_()
    view = flodl.view(tagger)
    view.load_subgraph_checkpoint("encoder", tmp_path / "model.safetensors")
    assert all(torch.equal(item, wanted[name]) for name, item in encoder.state_dict().items())


def part_of(encoder, graph):
    return next(name for name, each in graph.named_children() if each is encoder)
