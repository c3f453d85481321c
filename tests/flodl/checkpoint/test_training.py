"""A run that was stopped and resumed is bit for bit the run that was not."""

import io
import random

import numpy as np
import pytest
import torch
from torch import nn, optim

from flodl.checkpoint.state import load_state, save_state
from flodl.checkpoint.store import load
from flodl.checkpoint.training import resume, save_training
from flodl.errors import CheckpointError
from flodl.nn.optimizers import SGD, Adam, AdamW
from flodl.nn.precision import GradScaler, amp_step
from flodl.nn.schedulers import CosineScheduler
from tests.flodl.checkpoint.samples import same, saved

pytestmark = pytest.mark.torch


def parts(seed, kind=Adam):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = kind(model, 0.01)
    scheduler = CosineScheduler(0.01, 0.001, 20).as_torch(optimizer)
    scaler = GradScaler(init_scale=4.0, growth_interval=3, device="cpu")
    return model, optimizer, scheduler, scaler


def train(model, optimizer, scheduler, scaler, steps):
    for _ in range(steps):
        loss = (
            (model(torch.randn(4, 3)) * (1 + random.random() + np.random.rand())).square().mean()
        )
        amp_step(scaler, loss, optimizer, max_norm=1.0)
        scheduler.step()


@pytest.mark.parametrize("kind", [Adam, AdamW, SGD])
def test_resuming_is_as_if_nothing_had_happened(kind, tmp_path):
    path = tmp_path / "run.fdl"
    model, optimizer, scheduler, scaler = parts(0, kind)
    train(model, optimizer, scheduler, scaler, 5)
    more = {"scheduler": scheduler, "scaler": scaler}
    save_training(path, model, optimizer, epoch=2, step=5, parts=more, extra={"best": (0.5, "a")})
    train(model, optimizer, scheduler, scaler, 5)

    again, optimizer2, scheduler2, scaler2 = parts(99, kind)
    random.seed(0)
    point = resume(path, again, optimizer2, parts={"scheduler": scheduler2, "scaler": scaler2})
    assert (point.epoch, point.step, point.extra, point.unused) == (2, 5, {"best": (0.5, "a")}, ())
    train(again, optimizer2, scheduler2, scaler2, 5)
    assert same(model, again)
    assert optimizer.lr() == optimizer2.lr()
    assert scaler.get_scale() == scaler2.get_scale()


def test_a_training_file_is_a_model_file_too(tmp_path):
    path = tmp_path / "run.fdl"
    model, optimizer, scheduler, scaler = parts(0)
    train(model, optimizer, scheduler, scaler, 2)
    save_training(path, model, optimizer)
    fresh = parts(5)[0]
    report = load(fresh, path)
    assert same(model, fresh)
    assert report.skipped == ()


def test_parameters_are_found_by_name_not_by_place(tmp_path):
    path = tmp_path / "run.fdl"
    model, optimizer, scheduler, scaler = parts(0)
    train(model, optimizer, scheduler, scaler, 2)
    save_training(path, model, optimizer)
    other = parts(1)[0]
    backwards = Adam(list(other.parameters())[::-1], 0.01)
    resume(path, other, backwards)
    theirs = optimizer.state[model[0].weight]["exp_avg"]
    assert torch.equal(backwards.state[other[0].weight]["exp_avg"], theirs)


def test_groups_must_be_the_same(tmp_path):
    path = tmp_path / "run.fdl"
    model, optimizer, *_ = parts(0)
    save_training(path, model, optimizer)
    split = Adam.with_groups().group(model[0], 0.1).group(model[2:], 0.1).build()
    with pytest.raises(CheckpointError, match="groups differ"):
        resume(path, model, split)
    with pytest.raises(CheckpointError, match="state of Adam, the optimizer is SGD"):
        resume(path, model, SGD(model, 0.1))
    with pytest.raises(CheckpointError, match="not one of the model's"):
        save_training(path, model, Adam(nn.Linear(2, 2), 0.1))


def test_torchs_own_optimizers_and_named_parameters(tmp_path):
    path = tmp_path / "run.fdl"
    model = parts(0)[0]
    optimizer = optim.Adam(model.named_parameters(), lr=0.1)
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    save_training(path, model, optimizer)
    other = parts(1)[0]
    fresh = optim.Adam(other.named_parameters(), lr=0.1)
    resume(path, other, fresh)
    assert fresh.state[other[0].bias]["step"] == 1


def test_nothing_changes_when_something_does_not_fit(tmp_path):
    path = tmp_path / "run.fdl"
    model, optimizer, scheduler, scaler = parts(0)
    save_training(path, model, optimizer, parts={"scheduler": scheduler})
    other, optimizer2, *_ = parts(1)
    before = saved(other)[-400:]
    with pytest.raises(CheckpointError, match="no state of scaler"):
        resume(path, other, optimizer2, parts={"scaler": scaler})
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    with pytest.raises(CheckpointError, match="damaged"):
        resume(io.BytesIO(data), other, optimizer2)
    assert saved(other)[-400:] == before
    assert resume(path, other, optimizer2).unused == ("scheduler",)


def test_weights_alone_are_no_training_file():
    model, optimizer, *_ = parts(0)
    with pytest.raises(CheckpointError, match="weights only"):
        resume(io.BytesIO(saved(model)), model, optimizer)


def test_any_nest_of_plain_values_and_tensors_comes_back():
    tree = {
        1: torch.ones(2), "1": torch.zeros(2), (1, "a"): [1, 2.5, None, True, "text"], "t": (1, (2,)),
        "nan": float("inf"), "empty": {}, "deep": {"x": [torch.tensor(3)]}, "r": random.Random(0).getstate(),
    }  # fmt: skip
    stream = io.BytesIO()
    save_state(stream, tree, of="test")
    back = load_state(io.BytesIO(stream.getvalue()), of="test")
    assert torch.equal(back.pop(1), tree.pop(1))
    assert torch.equal(back.pop("1"), tree.pop("1"))
    assert torch.equal(back["deep"].pop("x")[0], tree["deep"].pop("x")[0])
    assert back == tree
    with pytest.raises(CheckpointError, match=r"a set at state/a"):
        save_state(io.BytesIO(), {"a": {1}}, of="test")
    with pytest.raises(CheckpointError, match="no state"):
        load_state(io.BytesIO(saved(nn.Linear(1, 1))), of="test")
