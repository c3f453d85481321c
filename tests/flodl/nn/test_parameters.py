"""Clipping, freezing, casting and collecting parameters."""

import pytest
import torch
from torch import nn

from flodl.nn import optimizers
from flodl.nn import parameters as parts

pytestmark = pytest.mark.torch


def with_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    (model(torch.randn(5, 3)) * 30).sum().backward()
    return model


def gradients(model):
    return torch.cat([each.grad.flatten() for each in model.parameters()])


def test_clip_grad_norm_returns_the_norm_before():
    model = with_gradients()
    before = gradients(model).norm()
    assert torch.allclose(parts.clip_grad_norm(model, 1.0), before)
    torch.testing.assert_close(gradients(model).norm(), torch.tensor(1.0), rtol=1e-4, atol=0)
    assert torch.allclose(
        parts.clip_grad_norm(model.parameters(), 100.0), torch.tensor(1.0), rtol=1e-4
    )


def test_clip_grad_value_returns_the_largest_before():
    model = with_gradients()
    before = gradients(model)
    assert parts.clip_grad_value(model, 0.5) == before.abs().max()
    assert torch.equal(gradients(model), before.clamp(-0.5, 0.5))


def test_clip_grad_value_without_gradients():
    assert parts.clip_grad_value(nn.Linear(2, 2), 1.0) == 0.0


def test_freezing_drops_gradients_and_can_be_undone():
    model = with_gradients()
    parts.freeze(model[0])
    assert parts.is_frozen(model[0])
    assert not parts.is_frozen(model)
    assert model[0].weight.grad is None
    assert len(parts.trainable_parameters(model)) == 2
    parts.unfreeze(model[0])
    assert not parts.is_frozen(model[0].weight)
    assert not parts.is_frozen(nn.ReLU())


def test_freeze_names_takes_the_names_of_a_load_report():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert parts.freeze_names(model, ["0.weight", "1.running_mean"]) == ("0.weight",)
    assert parts.is_frozen(model[0].weight)
    assert not parts.is_frozen(model[0].bias)
    with pytest.raises(KeyError, match=r"no parameter or buffer '0\.wait'"):
        parts.freeze_names(model, ["0.wait"])


def test_collecting_lists_a_shared_parameter_once():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
    two.weight = one.weight
    assert parts.collect_parameters([one, two]) == [one.weight, one.bias]


def test_cast_changes_floating_parameters_with_their_gradients():
    model = with_gradients()
    model.register_parameter("steps", nn.Parameter(torch.tensor([1]), requires_grad=False))
    weight = model[0].weight
    assert parts.cast_parameters(model, torch.bfloat16) == 4
    assert model[0].weight is weight
    assert weight.dtype == weight.grad.dtype == torch.bfloat16
    assert model.steps.dtype == torch.int64
    assert parts.cast_parameters(model, torch.bfloat16) == 0


def test_zero_grad_forgets():
    model = with_gradients()
    parts.zero_grad(model[0].weight)
    assert model[0].weight.grad is None
    assert model[0].bias.grad is not None
    parts.zero_grad(model)
    assert model[0].bias.grad is None


def test_move_to_device_returns_the_module():
    model = nn.Linear(1, 1)
    assert parts.move_to_device(model, "cpu") is model


@pytest.mark.parametrize(
    "use",
    [
        lambda params: parts.clip_grad_norm(params, 1.0),
        lambda params: parts.clip_grad_value(params, 1.0),
        parts.freeze,
        parts.unfreeze,
        parts.is_frozen,
        parts.zero_grad,
        lambda params: parts.cast_parameters(params, torch.float64),
    ],
    ids=["clip_norm", "clip_value", "freeze", "unfreeze", "is_frozen", "zero_grad", "cast"],
)
def test_parameters_used_up_by_an_optimizer_raise(use):
    params = with_gradients().parameters()
    optimizers.Adam(params, 0.01)
    with pytest.raises(ValueError, match="generator of parameters was already read"):
        use(params)


def test_freeze_iterator_without_parameters_warns_at_the_callers_line():
    named = with_gradients().named_parameters()
    loaded = {name for name, _ in named}
    with pytest.warns(UserWarning, match="iterator of parameters gives nothing") as caught:
        parts.freeze(each for name, each in named if name in loaded)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="iterator of names gives nothing") as caught:
        parts.freeze_names(nn.Linear(1, 1), iter(()))
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="iterator of modules gives nothing"):
        parts.collect_parameters(iter(()))


def test_freeze_empty_list_is_a_choice():
    parts.freeze([])
    assert parts.freeze_names(nn.Linear(1, 1), ()) == ()
