"""The optimizers are torch's: equal steps bit for bit, plus rates, groups and saved state."""

import copy
import io

import pytest
import torch
from torch import nn, optim

from flodl.errors import CheckpointError, TrainingError
from flodl.nn import optimizers
from flodl.nn.parameters import freeze, trainable_parameters, unfreeze

pytestmark = pytest.mark.torch

PAIRS = {
    "SGD": ((0.1, 0.9), {"lr": 0.1, "momentum": 0.9}),
    "Adam": ((0.01,), {"lr": 0.01}),
    "AdamW": ((0.01, 0.1), {"lr": 0.01, "weight_decay": 0.1}),
    "RMSprop": ((0.01,), {"lr": 0.01}),
    "Adagrad": ((0.01,), {"lr": 0.01}),
    "RAdam": ((0.01,), {"lr": 0.01}),
    "NAdam": ((0.01,), {"lr": 0.01}),
}
KINDS = [getattr(optimizers, name) for name in PAIRS]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def train(model, optimizer, steps, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 3, generator=generator)).square().mean().backward()
        optimizer.step()


def assert_equal(first, second):
    for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", PAIRS)
def test_steps_are_torchs_bit_for_bit(name):
    positional, keywords = PAIRS[name]
    ours, theirs = net(), net()
    train(ours, getattr(optimizers, name)(ours.parameters(), *positional), 10)
    train(theirs, getattr(optim, name)(theirs.parameters(), **keywords), 10)
    assert_equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_torch_class_and_takes_a_module(kind):
    optimizer = kind(net(), 0.1)
    assert isinstance(optimizer, getattr(optim, kind.__name__))
    assert len(optimizer.param_groups[0]["params"]) == 4
    assert optimizer.lr() == 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_groups_have_rates_of_their_own(kind):
    model = net()
    optimizer = (
        kind.with_groups().group(model[0], lr=0.1).group(model[2].parameters(), 0.01).build()
    )
    assert (optimizer.lr(0), optimizer.lr(1)) == (0.1, 0.01)
    optimizer.set_group_lr(1, 0.5)
    assert (optimizer.lr(), optimizer.lr(1)) == (0.1, 0.5)
    optimizer.scale_lr(0.5)
    assert (optimizer.lr(0), optimizer.lr(1)) == (0.05, 0.25)
    optimizer.set_lr(0.3)
    assert (optimizer.lr(0), optimizer.lr(1)) == (0.3, 0.3)
    with pytest.raises(IndexError, match="groups are 0 to 1"):
        optimizer.set_group_lr(2, 0.1)
    with pytest.raises(IndexError, match="groups are 0 to 1"):
        optimizer.set_group_lr(-1, 0.1)


def test_groups_train_as_torch_groups_do():
    ours, theirs = net(), net()
    builder = optimizers.SGD.with_groups(momentum=0.9)
    train(ours, builder.group(ours[0], 0.1).group(ours[2], 0.01, weight_decay=0.1).build(), 5)
    groups = [
        {"params": theirs[0].parameters(), "lr": 0.1},
        {"params": theirs[2].parameters(), "lr": 0.01, "weight_decay": 0.1},
    ]
    train(theirs, optim.SGD(groups, lr=0.1, momentum=0.9), 5)
    assert_equal(ours, theirs)


def test_a_builder_can_build_twice():
    model = net()
    builder = optimizers.Adam.with_groups().group(model, 0.1)
    first, second = builder.build(), builder.build()
    first.set_lr(9.0)
    assert second.lr() == 0.1


def test_groups_without_parameters_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        optimizers.Adam.with_groups().build()
    with pytest.raises(ValueError, match="group 1 has no parameters"):
        optimizers.Adam.with_groups().group(net(), 0.1).group(nn.ReLU(), 0.1).build()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", ["state.fdl", "state.fdl.gz"])
def test_training_continues_from_saved_state(kind, suffix, tmp_path):
    straight, stopped = net(), net()
    one = kind(straight, 0.05)
    train(straight, one, 4)
    train(straight, one, 4, seed=2)
    first = kind(stopped, 0.05)
    train(stopped, first, 4)
    first.save_state(tmp_path / suffix)
    continued = copy.deepcopy(stopped)
    second = kind(continued, 0.9)
    second.load_state(tmp_path / suffix)
    train(continued, second, 4, seed=2)
    assert_equal(straight, continued)


def test_state_of_another_kind_is_refused():
    file = io.BytesIO()
    optimizers.Adam(net(), 0.1).save_state(file)
    with pytest.raises(CheckpointError, match="state of Adam, not of SGD"):
        optimizers.SGD(net(), 0.1).load_state(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_parameters_do_not_move(kind):
    model = net()
    optimizer = kind(model, 0.1, weight_decay=0.1)
    train(model, optimizer, 3)
    freeze(model[0])
    before = model[0].weight.clone()
    train(model, optimizer, 3)
    assert torch.equal(model[0].weight, before)
    assert trainable_parameters(model) == list(model[2].parameters())
    unfreeze(model[0])
    train(model, optimizer, 1)
    assert not torch.equal(model[0].weight, before)


@pytest.mark.parametrize(
    ("kind", "name"), [(optimizers.SGD, "momentum"), (optimizers.AdamW, "weight_decay")]
)
def test_with_groups_takes_the_setting_of_all_groups(kind, name):
    model = net()
    optimizer = kind.with_groups(0.9).group(model[0], lr=0.1).group(model[2], 0.2).build()
    assert [group[name] for group in optimizer.param_groups] == [0.9, 0.9]
    assert (optimizer.lr(0), optimizer.lr(1)) == (0.1, 0.2)
    assert type(kind.with_groups().group(model, lr=0.1).build()) is kind


def test_a_replaced_head_is_noticed():
    model = net()
    optimizer = optimizers.Adam(model, 0.1)
    assert optimizers.check_trains(optimizer, model) == ()
    model[2] = nn.Linear(5, 9)
    assert optimizers.check_trains(optimizer, model) == ("2.weight", "2.bias")


def test_require_trains_partial_optimizer_warns():
    model = net()
    optimizer = optimizers.Adam(model[0], 0.1)
    with pytest.warns(UserWarning, match=r"2 trainable parameters .*2\.weight, 2\.bias"):
        optimizers.require_trains(optimizer, model)
    freeze(model[2])
    optimizers.require_trains(optimizer, model)


def test_require_trains_frozen_model_allows_an_optimizer_of_inputs():
    model = net()
    image = nn.Parameter(torch.zeros(3))
    with pytest.raises(
        TrainingError, match=r"Adam holds no parameter of the Sequential.*0\.weight"
    ):
        optimizers.require_trains(optimizers.Adam([image], 0.1), model)
    freeze(model)
    optimizers.require_trains(optimizers.Adam([image], 0.1), model)


def test_a_rate_held_in_a_tensor_is_changed_in_place():
    model = net()
    rate = torch.tensor(0.1)
    optimizer = optimizers.Adam(model, rate, foreach=False, capturable=False)
    optimizer.set_lr(0.25)
    assert rate.item() == 0.25


@pytest.mark.gpu
def test_adam_is_fused_on_cuda():
    model = net().cuda()
    assert optimizers.Adam(model, 0.1).param_groups[0]["fused"] is True
    assert optimizers.AdamW(model, 0.1, fused=False).param_groups[0]["fused"] is False
