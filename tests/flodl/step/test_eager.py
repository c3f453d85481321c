"""The eager step computes, bit by bit, what a loop of one's own computes."""

import copy

import pytest
import torch
from torch import nn

from flodl.nn.optimizers import SGD, Adam, AdamW, NAdam
from flodl.step.ema import Ema
from flodl.step.fusing import fuse
from flodl.step.step import make_step

pytestmark = pytest.mark.torch


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def batches(count=6):
    torch.manual_seed(1)
    return [(torch.randn(5, 3), torch.randn(5, 1)) for _ in range(count)]


def train_fn(model, batch):
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def same(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == twin and torch.equal(a, b) for (name, a), (twin, b) in pairs)


KINDS = {
    "sgd": lambda params, **more: torch.optim.SGD(params, 0.1, momentum=0.9, **more),
    "adam": lambda params, **more: torch.optim.Adam(params, 0.01, **more),
    "adamw": lambda params, **more: torch.optim.AdamW(params, 0.01, **more),
    "adagrad": lambda params, **more: torch.optim.Adagrad(params, 0.01, **more),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_like_a_loop_of_ones_own(kind, accumulate, clip):
    model, twin = net(), net()
    step = make_step(
        model, KINDS[kind](model.parameters()), train_fn,
        mode="eager", accumulate=accumulate, clip_norm=clip,
    )  # fmt: skip
    optimizer = KINDS[kind](twin.parameters(), fused=True)
    losses = [step(batch) for batch in batches()]
    for number, batch in enumerate(batches()):
        loss = train_fn(twin, batch)
        assert torch.equal(loss, losses[number])
        (loss / accumulate).backward()
        if (number + 1) % accumulate == 0:
            if clip:
                nn.utils.clip_grad_norm_(twin.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
    assert same(model, twin)
    assert not losses[0].requires_grad


def test_fusing_can_be_left_off_and_changes_only_last_bits():
    plain, fused = net(), net()
    left = make_step(plain, Adam(plain), train_fn, mode="eager", fused=False)
    right = make_step(fused, Adam(fused), train_fn, mode="eager")
    assert left.decision == "eager with Adam"
    assert right.decision == "eager with fused Adam"
    for batch in batches():
        assert torch.allclose(left(batch), right(batch), rtol=1e-6)


def test_bf16_and_metrics_stay_tensors():
    model, twin = net(), net()

    def with_metrics(model, batch):
        loss = train_fn(model, batch)
        return loss, {"double": loss * 2}

    step = make_step(
        model, torch.optim.SGD(model.parameters(), 0.1), with_metrics, mode="eager",
        precision="bf16",
    )  # fmt: skip
    optimizer = torch.optim.SGD(twin.parameters(), 0.1, fused=True)
    for batch in batches():
        loss = step(batch)
        assert torch.equal(step.metrics["double"], loss * 2)
        with torch.autocast("cpu", torch.bfloat16):
            expected = train_fn(twin, batch)
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        assert torch.equal(loss, expected)
    assert same(model, twin)


def test_fp16_unscales_before_it_clips():
    model, twin = net(), net()
    step = make_step(
        model, torch.optim.SGD(model.parameters(), 0.1), train_fn, mode="eager",
        precision="fp16", clip_norm=0.05,
    )  # fmt: skip
    optimizer = torch.optim.SGD(twin.parameters(), 0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu")
    for batch in batches():
        loss = step(batch)
        with torch.autocast("cpu", torch.float16):
            expected = train_fn(twin, batch)
        optimizer.zero_grad()
        scaler.scale(expected).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(twin.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(loss, expected)
    assert same(model, twin)
    assert step.state_dict()["scaler"]["scale"] == scaler.state_dict()["scale"]


def test_fp16_leaves_out_an_update_that_overflowed():
    model = nn.Linear(1, 1)
    before = copy.deepcopy(model)
    step = make_step(
        model, torch.optim.SGD(model.parameters(), 0.1),
        lambda model, x: model(x).sum() * float("inf"), mode="eager", precision="fp16",
        clip_norm=1.0,
    )  # fmt: skip
    step(torch.ones(1, 1))
    assert same(model, before)
    assert step.state_dict()["scaler"]["scale"] == 32768.0


def test_averages_follow_every_update():
    model = net()
    ema = Ema(model, decay=0.9)
    expected = {name: each.detach().clone() for name, each in model.named_parameters()}
    step = make_step(model, AdamW(model), train_fn, mode="eager", ema=ema, accumulate=2)
    for number, batch in enumerate(batches()):
        step(batch)
        if number % 2:
            for name, each in model.named_parameters():
                expected[name].lerp_(each.detach(), 1 - 0.9)
    assert all(torch.allclose(ema.averages[name], each) for name, each in expected.items())
    trained = copy.deepcopy(model)
    with ema.applied():
        held = dict(model.named_parameters())
        assert all(torch.allclose(held[name], each) for name, each in expected.items())
        assert not same(model, trained)
    assert same(model, trained)
    other = Ema(net(), decay=0.5)
    other.load_state_dict(ema.state_dict())
    assert other.decay == 0.9
    with pytest.raises(KeyError, match="another model"):
        Ema(nn.Linear(1, 1)).load_state_dict(ema.state_dict())


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_resumes_within_an_accumulation(stop):
    def made(model):
        return make_step(model, Adam(model), train_fn, mode="eager", accumulate=3, ema=Ema(model))

    whole = net()
    step = made(whole)
    for batch in batches():
        step(batch)
    first = net()
    step = made(first)
    for batch in batches()[:stop]:
        step(batch)
    assert step.at_boundary == (stop % 3 == 0)
    second = net()
    resumed = make_step(
        second, (optimizer := Adam(second)), train_fn, mode="eager", accumulate=3, ema=Ema(second)
    )
    second.load_state_dict(first.state_dict())
    optimizer.load_state_dict(copy.deepcopy(step.recipe.optimizer.state_dict()))
    resumed.load_state_dict(step.state_dict())
    for batch in batches()[stop:]:
        resumed(batch)
    assert same(whole, second)


def test_an_unfinished_accumulation_can_be_flushed():
    model = net()
    step = make_step(model, SGD(model, 0.1), train_fn, mode="eager", accumulate=4)
    assert not step.flush()
    before = copy.deepcopy(model)
    step(batches()[0])
    assert torch.equal(before[0].weight, model[0].weight)
    assert step.flush()
    assert step.at_boundary
    assert not torch.equal(before[0].weight, model[0].weight)


def test_what_was_asked_for_is_kept_when_fusing():
    weight = nn.Parameter(torch.ones(2))
    assert fuse(torch.optim.Adam([weight], fused=False)) == "Adam"
    assert fuse(torch.optim.Adam([weight], foreach=True)) == "Adam"
    assert fuse(torch.optim.AdamW([weight])) == "fused AdamW"
    assert fuse(NAdam([weight])) == "NAdam"
    assert fuse(torch.optim.Adam([nn.Parameter(torch.ones(2, dtype=torch.complex64))])) == "Adam"


def test_states_of_fused_and_unfused_optimizers_go_both_ways():
    saved = {}
    for fused in (False, True):
        model = net()
        optimizer = torch.optim.Adam(model.parameters())
        step = make_step(model, optimizer, train_fn, mode="eager", fused=fused)
        for batch in batches(3):
            step(batch)
        saved[fused] = (model, optimizer)
    for fused in (False, True):
        model, optimizer = copy.deepcopy(saved[fused])
        other = net()
        taken = torch.optim.Adam(other.parameters())
        step = make_step(other, taken, train_fn, mode="eager", fused=not fused)
        other.load_state_dict(model.state_dict())
        taken.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        continued = make_step(model, optimizer, train_fn, mode="eager", fused=fused)
        for batch in batches(3):
            assert torch.allclose(step(batch), continued(batch), rtol=1e-5)
    assert all(group["fused"] for group in taken.param_groups) or fused


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "fast"}, {"precision": "fp8"}, {"accumulate": 0}, {"clip_norm": -1.0}],
)
def test_wrong_settings_are_refused(wrong):
    model = net()
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make_step(model, SGD(model), train_fn, **wrong)


def test_a_train_function_must_return_a_loss():
    model = net()
    step = make_step(model, SGD(model), lambda model, batch: 3.0, mode="eager")
    with pytest.raises(TypeError, match="must return the loss"):
        step(batches()[0])
