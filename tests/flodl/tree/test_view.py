"""`flodl.view` on plain torch models: no port, no class of ours, and the model stays what it was."""

import io

import pytest
import torch

import flodl
from tests.flodl.tree.plain_models import MODELS

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", MODELS)
def test_view_of_a_plain_model_has_tree_tags_times_pictures_and_checkpoints(name, tmp_path):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    inputs = torch.randn(shape)
    model = make().eval()
    # The first block; the parts of an attention are not called as modules.
    part = next(path for path, _ in model.named_modules() if path.endswith(".0"))
    expected = model(inputs)
    kind, keys = type(model), list(model.state_dict())
    view = flodl.view(model)

    count = view.freeze(part)
    assert count == len(view.parameters_at(part)) > 1
    assert view.is_frozen(part)
    view.thaw(part)

    seen = []
    handle = model.get_submodule(part).register_forward_hook(
        lambda *given: seen.append(given[2].clone())
    )
    view.observe_tags(part)
    view.enable_profiling()
    assert torch.equal(model(inputs), expected)
    assert torch.equal(view.tagged(part), seen[-1])
    assert view.timing(part) > 0
    handle.remove()
    view.observe_tags()
    view.disable_profiling()
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())

    assert view.svg(tmp_path / "model.svg").startswith("<svg")
    file = io.BytesIO()
    flodl.view(model.get_submodule(part)).save_checkpoint(file)
    twin = make().eval()
    flodl.view(twin).load_checkpoint(io.BytesIO(file.getvalue()), part=part)
    theirs, ours = (each.get_submodule(part).state_dict() for each in (twin, model))
    assert all(torch.equal(theirs[key], ours[key]) for key in ours)
    assert (type(model), list(model.state_dict())) == (kind, keys)
