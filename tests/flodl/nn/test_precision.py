"""Autocast scopes, and a gradient scaler that clips what it has unscaled."""

import io

import pytest
import torch
from torch import nn

from flodl.nn.optimizers import SGD, Adam
from flodl.nn.parameters import clip_grad_norm
from flodl.nn.precision import AutocastGuard, GradScaler, amp_step, autocast, is_autocast_enabled

pytestmark = pytest.mark.torch


def model():
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def loss_of(net, factor=1.0):
    return (net(torch.tensor([[1.0, -2.0, 3.0]])) * factor).sum()


def scaler(**settings):
    return GradScaler(device="cpu", **settings)


def test_autocast_as_a_call_and_as_a_scope():
    net = model()
    x = torch.ones(1, 3)
    with torch.autocast("cpu", torch.bfloat16):
        expected = net(x)
    assert torch.equal(autocast(torch.bfloat16, lambda: net(x), device_type="cpu"), expected)
    with autocast(torch.bfloat16, device_type="cpu"):
        assert is_autocast_enabled()
        assert is_autocast_enabled("cpu")
        assert torch.equal(net(x), expected)
    assert not is_autocast_enabled()
    with AutocastGuard(torch.bfloat16, "cpu", enabled=False):
        assert net(x).dtype == torch.float32


def test_defaults():
    state = scaler().state_dict()
    assert (state["scale"], state["growth_factor"]) == (65536.0, 2.0)
    assert (state["backoff_factor"], state["growth_interval"]) == (0.5, 2000)


def test_a_scaled_step_is_the_plain_step():
    plain, scaled = model(), model()
    one, two = SGD(plain, 0.1, 0.9), SGD(scaled, 0.1, 0.9)
    scale = scaler()
    for _ in range(3):
        one.zero_grad()
        loss_of(plain).backward()
        one.step()
        assert amp_step(scale, loss_of(scaled), two)
    assert torch.equal(plain.weight, scaled.weight)


def test_clipping_happens_after_unscaling():
    plain, scaled = model(), model()
    one, two = SGD(plain, 1.0), SGD(scaled, 1.0)
    loss_of(plain).backward()
    clip_grad_norm(plain, 0.5)
    one.step()
    before = scaled.weight.clone()
    assert amp_step(scaler(), loss_of(scaled), two, max_norm=0.5)
    assert torch.equal(plain.weight, scaled.weight)
    # In the wrong order the step would be 65536 times smaller.
    assert (scaled.weight - before).norm() > 0.4


def test_unscaling_by_hand_before_step_is_not_repeated():
    net = model()
    optimizer = SGD(net, 1.0)
    scale = scaler()
    scale.scale(loss_of(net)).backward()
    scale.unscale_(optimizer)
    gradient = net.weight.grad.clone()
    assert torch.equal(gradient, torch.tensor([[1.0, -2.0, 3.0]]))
    assert scale.step(optimizer)
    scale.update()
    assert torch.equal(net.weight.grad, gradient)


def test_an_infinite_gradient_skips_the_step_and_halves_the_scale():
    net = model()
    optimizer = Adam(net, 0.1)
    scale = scaler()
    before = net.weight.clone()
    assert amp_step(scale, loss_of(net, float("inf")), optimizer, max_norm=1.0) is False
    assert torch.equal(net.weight, before)
    assert scale.get_scale() == 32768.0
    assert amp_step(scale, loss_of(net), optimizer)


def test_the_scale_grows_after_an_interval():
    net = model()
    optimizer = SGD(net, 0.001)
    scale = scaler(init_scale=4.0, growth_interval=2)
    scales = []
    for _ in range(4):
        amp_step(scale, loss_of(net), optimizer)
        scales.append(scale.get_scale())
    assert scales == [4.0, 8.0, 8.0, 16.0]


def test_parameters_with_a_function_in_place_of_an_optimizer():
    net = model()
    scale = scaler()
    seen = []
    for factor in (1.0, float("nan"), 1.0):
        net.zero_grad()
        scale.scale(loss_of(net, factor)).backward()
        stepped = scale.step(net.parameters(), lambda: seen.append(net.weight.grad.clone()))
        scale.update()
        assert stepped is (factor == factor)
    assert len(seen) == 2
    assert torch.equal(seen[0], torch.tensor([[1.0, -2.0, 3.0]]))


def test_two_optimizers_share_a_scaler():
    first, second = model(), model()
    one, two = SGD(first, 0.1), SGD(second, 0.1)
    scale = scaler()
    scale.scale(loss_of(first) + loss_of(second, float("inf"))).backward()
    assert [scale.step(one), scale.step(two)] == [True, False]
    scale.update()
    assert scale.get_scale() == 32768.0


def test_a_disabled_scaler_still_clips_and_steps():
    net = model()
    before = net.weight.clone()
    assert amp_step(scaler(enabled=False), loss_of(net), SGD(net, 1.0), max_norm=0.5)
    torch.testing.assert_close(
        (net.weight - before).norm(), torch.tensor(0.48305), rtol=1e-3, atol=0
    )


def test_step_says_what_belongs_together():
    net = model()
    with pytest.raises(TypeError, match="needs the function"):
        scaler().step(net.parameters())
    with pytest.raises(TypeError, match="leave the function away"):
        scaler().step(SGD(net, 0.1), lambda: None)


def test_state_is_saved():
    first, second = scaler(init_scale=8.0), scaler()
    file = io.BytesIO()
    first.save_state(file)
    second.load_state(io.BytesIO(file.getvalue()))
    assert second.get_scale() == 8.0
    assert second.state_dict() == first.state_dict()
