"""The checkpoint of a part, loaded into that part of a larger model."""

import copy

import pytest
import torch
from torch import nn

from flodl import FlowBuilder, GraphError
from flodl.checkpoint.store import load, load_checkpoint, load_subgraph, save
from flodl.errors import CheckpointError, UnknownNameError
from tests.flodl.tree.plain_models import ViT

pytestmark = pytest.mark.torch


def graph():
    inner = FlowBuilder.from_(nn.Linear(3, 3)).label("encoder").build()
    return (
        FlowBuilder.from_(inner).through(nn.Linear(3, 2)).tag("head").through(torch.relu).tag("out")
        .build()
    )  # fmt: skip


@pytest.mark.parametrize("how", [load, lambda model, file, part: load_checkpoint(file, model, part=part)],
                         ids=["load", "load_checkpoint"])  # fmt: skip
def test_load_of_a_part_equals_load_subgraph(tmp_path, how):
    file = tmp_path / "layer.fdl"
    save(ViT().encoder.layer[0], file)
    model = ViT()
    twin, before = copy.deepcopy(model), copy.deepcopy(model.state_dict())
    report = how(model, file, part="encoder.layer.0")
    assert report == load_subgraph(twin, "encoder.layer.0", file)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=0)
    changed = {
        name for name, old in before.items() if not torch.equal(old, model.state_dict()[name])
    }
    assert changed
    assert all(name.startswith("encoder.layer.0.") for name in changed)


def test_load_of_a_missing_part_changes_nothing(tmp_path):
    file = tmp_path / "layer.fdl"
    save(ViT().encoder.layer[0], file)
    model = ViT()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(CheckpointError, match=r"ViT has no part 'encoder\.layer\.9'"):
        load(model, file, part="encoder.layer.9")
    with pytest.raises(CheckpointError, match="another architecture"):
        load(model, file, part="head")
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_load_of_a_part_into_bare_tensors_is_refused(tmp_path):
    file = tmp_path / "head.fdl"
    save(nn.Linear(3, 2), file)
    with pytest.raises(CheckpointError, match="bare tensors have no part 'head'"):
        load_checkpoint(file, nn.Linear(3, 2).state_dict(), part="head")


@pytest.mark.parametrize(("part", "make"), [("encoder", lambda: graph().subgraph("encoder")),
                                            ("head", lambda: nn.Linear(3, 2))],
                         ids=["label", "tag"])  # fmt: skip
def test_load_checkpoint_of_a_part_of_a_graph_equals_load_subgraph_checkpoint(
    tmp_path, part, make
):
    file = tmp_path / "part.fdl"
    save(make(), file)
    model = graph()
    twin = copy.deepcopy(model)
    assert model.load_checkpoint(file, part=part) == twin.load_subgraph_checkpoint(part, file)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=0)
    with pytest.raises(UnknownNameError):
        model.load_checkpoint(file, part="nowhere")
    with pytest.raises(GraphError, match="no module"):
        model.load_checkpoint(file, part="out")
